"""The one command: `contrastive train|evaluate|verify|...`, the same as `python -m contrastive ...`."""

import signal
import sys
from difflib import get_close_matches
from importlib import import_module

from contrastive.errors import check_encoding, without_package

COMMANDS = {  # name: its module, and what it does
    "train": ("cli.train", "pretrain an encoder and evaluate it: the same as python train.py"),
    "runs": ("cli.runs", "list what is running, interrupted and done"),
    "evaluate": ("cli.evaluate", "evaluate finished runs again, also on other data"),
    "verify": ("cli.verify", "recompute comparisons from their records"),
    "look": ("cli.look", "what a folder, table, shard or array holds, and what to type to train on it"),
    "show": ("cli.show", "a page of what a run learned and gets wrong"),
    "pack": ("cli.pack", "write a folder of images as tar shards for dataset=shards"),
    "doctor": ("cli.doctor", "check this machine"),
    "embed": ("cli.embed", "write the features of images, with their paths and labels"),
    "export": ("cli.export", "export a trained encoder to ONNX, torch.export, torchvision or Hugging Face"),
    "compare": ("cli.compare", "is my loss really better? an equal search, fresh seeds, a verdict"),
    "report": ("cli.report", "tables of finished runs, also judged against one of them"),
    "page": ("report.page", "one HTML file of finished runs"),
}
USAGE = "usage: contrastive COMMAND ..., each with --help\n\n" + "".join(
    f"  {name:13}{does}\n" for name, (_, does) in COMMANDS.items()
)


def main(words: list[str] | None = None) -> int:
    """Run the command that the words begin with, those of the shell if None; returns its exit code."""
    check_encoding()
    name, *rest = (sys.argv[1:] if words is None else words) or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if name not in COMMANDS:
        near = [*get_close_matches(name, COMMANDS), "--help"][0]
        print(f"error: there is no command {name}: try contrastive {near}", file=sys.stderr)
        return 2
    module, _ = COMMANDS[name]
    if name != "train" and hasattr(signal, "SIGPIPE"):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently when the reader does, as in `... | head`
    try:
        command = import_module(f"contrastive.{module}")
    except ModuleNotFoundError as error:
        raise without_package(error) from None
    return int(command.main(rest))


if __name__ == "__main__":
    sys.exit(main())
