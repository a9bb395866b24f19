"""examples/minimal.py learns: its last kNN is above that of the untrained encoder."""

import re
import subprocess
import sys

import pytest

from tests.helpers import ONE_THREAD, ROOT


@pytest.mark.slow
def test_the_minimal_loop_learns():
    command = [sys.executable, str(ROOT / "examples/minimal.py")]
    environment = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    untrained, *trained = (float(value) for value in re.findall(r"kNN ([\d.]+) %", done.stdout))
    assert len(trained) == 10
    assert trained[-1] > untrained + 2
