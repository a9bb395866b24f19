"""Generated bad input: whatever is typed or read, the program ends in a result or in one sentence and exit code 2.

500 cases in `make test-all`; `make torture` runs 10,000 (HOSTILE_CASES=10000) and counts the
results (exit code 0) and the refusals (2).
"""

import io
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from contrastive.config.settings import Settings
from tests import hostile
from tests.helpers import ROOT
from tests.hostile import DRY, NODES, RAW_YAML, SMALL, SOUND_NODES, call, check

pytestmark = pytest.mark.slow
CASES = int(os.environ.get("HOSTILE_CASES", "500"))
SEED = bool(os.environ.get("HOSTILE_CASES"))


def cases(share: float) -> settings:
    """A share of the cases; the same ones at every run unless HOSTILE_CASES asks for fresh ones, as they come."""
    return settings(
        max_examples=max(1, round(CASES * share)), deadline=None, derandomize=not SEED, database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
    KEYS = hostile.keys_of(Settings.from_config(compose("train", DRY)))


@pytest.fixture(scope="module", autouse=True)
def memory() -> Iterator[None]:
    """At most 12 GiB: a word that asks for more gets an error, as with `ulimit -d`, and not the kernel's kill."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (12 * 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@cases(0.6)
@given(hostile.overrides(KEYS))
def test_overrides(words):
    with tempfile.TemporaryDirectory() as folder:
        event(f"exit code {check([*DRY, *words], Path(folder))}")


@cases(0.25)
@given(st.sampled_from(["loss", "encoder", "head", "evaluator", "dataset"]), NODES | SOUND_NODES | RAW_YAML)
def test_a_users_yaml(group, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine" / group / "odd.yaml"
        path.parent.mkdir(parents=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, encoding="utf-8", errors="replace")
        event(f"exit code {check(hostile.choose(group), Path(folder))}")
        assert not (Path(folder) / "EVIL").exists()


@cases(0.1)
@given(hostile.folders(), st.sampled_from(["true", "false"]))
def test_image_folders(content, dry):
    with tempfile.TemporaryDirectory() as folder:
        hostile.write_folder(Path(folder) / "images", content)
        words = ["dataset=image_folder", "dataset.root=images", "dataset.cache=cache", *SMALL, "evaluator=[knn]"]
        event(f"exit code {check([*words, 'batch_size=2', f'dry_run={dry}'], Path(folder))}")


RUN = [*SMALL, "epochs=2", "evaluator=[knn]", "log_every=4", "hydra.run.dir=run"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of two epochs, in run/ of the folder returned."""
    folder = tmp_path_factory.mktemp("finished")
    assert check(RUN, folder) == 0
    return folder


@cases(0.05)
@given(hostile.damages(), st.booleans())
def test_run_directories(finished, damaged, was_interrupted):
    whole = finished / "run"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        shutil.copytree(whole, run)
        for name, (kind, how) in damaged.items():
            if (run / name).exists():
                hostile.damage(run / name, kind, how)
        if was_interrupted:
            (run / "result.json").unlink(missing_ok=True)
        out = io.StringIO()
        code, said = call(RUN, Path(folder), out)
        assert "Traceback" not in said, (damaged, said)
        assert code in (0, 2), (damaged, code, said)
        event(f"exit code {code}")
        if code == 0:  # the same run, whatever it was rebuilt from
            assert scores(run) == scores(whole), (damaged, said)
            if "rerun=true starts it over" not in out.getvalue():  # last.pt is damaged, too
                for name in ("encoder.safetensors", "head.safetensors"):
                    ours, theirs = (load_file(path / name) for path in (run, whole))
                    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
        else:
            assert len([line for line in said.splitlines() if line.startswith("error:")]) == 1, (damaged, said)
            assert is_hopeless(damaged), (damaged, said)


def is_hopeless(damaged: dict[str, tuple[str, object]]) -> bool:
    """Whether refusing is right: what describes the run or its curves is damaged, or both checkpoints are."""
    return bool({"config.yaml", "environment.json", "metrics.jsonl"} & damaged.keys()) or {
        "checkpoints/last.pt", "checkpoints/previous.pt",
    } <= damaged.keys()  # fmt: skip


def scores(run: Path) -> dict[str, float]:
    """The test figures in result.json."""
    result: dict[str, dict[str, float]] = json.loads((run / "result.json").read_text())
    return result["test"]
