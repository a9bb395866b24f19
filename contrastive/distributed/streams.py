"""What a process prints to: a run of hours does not end because nobody can read its lines."""

import errno
import io
import os
import sys
import threading

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # EIO: a terminal that is gone
SAME = ("encoding", "errors", "line_buffering", "write_through")  # as Python has opened a stream


class _Patient(io.FileIO):
    """A stream that drops what its disk has no room for."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return len(data)


def _but_of_event_files(failed: threading.ExceptHookArgs) -> None:
    """The traceback of a thread, but not of the one that writes event files: its tracker tells that error."""
    if not type(failed.thread).__module__.startswith("tensorboard."):
        threading.__excepthook__(failed)


def keep_printing() -> None:
    """Let print work in this process and those that it starts, where stdout is closed (`>&-`) or its disk is full."""
    threading.excepthook = _but_of_event_files
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed: else the next file that is opened, perhaps a checkpoint, would have its number
            fd = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(fd, True)
            setattr(sys, name, os.fdopen(fd, "r" if name == "stdin" else "w"))
        elif name != "stdin" and stream is getattr(sys, f"__{name}__"):  # no test or notebook listens
            raw = _Patient(stream.fileno(), "w", closefd=False)
            is_direct = stream.write_through  # python -u
            same = {key: getattr(stream, key) for key in SAME}
            setattr(sys, name, io.TextIOWrapper(raw if is_direct else io.BufferedWriter(raw), **same))
