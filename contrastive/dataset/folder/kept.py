"""What is computed of files once, kept in a folder of the user's until the files change."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from contrastive.files import locked, write_text
from contrastive.schema import misfit

T = TypeVar("T")


def kept(path: Path, kind: type[T], make: Callable[[], T], *, is_whole: Callable[[T], bool] = bool) -> T:
    """What `make` gives, kept in a .json file: made once, while other processes wait; again if the file does not fit.

    Args:
        path: of the file, named after all that the content depends on.
        kind: TypedDict of the content.
        is_whole: whether what belongs to the content, such as a file beside it, is there.
    """
    if (content := known(path, kind, is_whole=is_whole)) is not None:
        return content
    with locked(path.with_suffix(".lock")):
        if (content := known(path, kind, is_whole=is_whole)) is None:
            content = make()
            write_text(path, json.dumps(content))  # last: marks all of it as complete
    return content


def known(path: Path, kind: type[T], *, is_whole: Callable[[T], bool] = bool) -> T | None:
    """What is kept in a file; None if it is not there, or does not fit."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        content: Any = json.loads(path.read_bytes())
        if misfit(content, kind) is None and is_whole(content):
            return content  # type: ignore[no-any-return]
    return None
