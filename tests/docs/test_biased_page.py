"""docs/biased.md: every command of the page runs, in its order, on smaller images, and prints what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

PAGE = (ROOT / "docs/biased.md").read_text()
COMMANDS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SHOWN = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each block of commands prints, in a folder with the files of the page."""
    here = tmp_path_factory.mktemp("biased")
    for name in ("train.py", "examples"):
        (here / name).symlink_to(ROOT / name)
    ((name, content),) = re.findall(r"^`(mine/\S+)`\n\n```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (here / name).parent.mkdir(parents=True)
    small = content.replace("size: 32", "size: 8").replace("epochs: 10", "epochs: 1")
    (here / name).write_text(small.replace("resnet18_narrow", "simple_convnet"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": path}
    done = [
        subprocess.run(["bash", "-ec", block], cwd=here, env=env, capture_output=True, text=True, check=False)
        for block in COMMANDS
    ]
    assert [run.returncode for run in done] == [0] * len(COMMANDS), [run.stderr for run in done]
    return [run.stdout + run.stderr for run in done]


@pytest.mark.slow
def test_the_page_shows_what_its_commands_print(printed: list[str]) -> None:
    assert len(printed) == 5
    csv, found, *reports = SHOWN
    assert csv in printed[0]
    assert found in printed[1] and "'dataset.columns={path: file, split: fold, label: label, bias: " in printed[1]
    for text, whole in zip(reports, printed[2:], strict=True):
        labels = [without_numbers(line) for line in text.splitlines() if line.strip()]
        assert labels and set(labels) <= {without_numbers(line) for line in whole.splitlines()}


def without_numbers(line: str) -> str:
    """The words of a line."""
    return " ".join(re.findall(r"[A-Za-z_=/,]+", line)).replace("better", "undecided").replace("worse", "undecided")
