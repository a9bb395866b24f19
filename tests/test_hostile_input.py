"""Generated bad input: whatever is typed or read, the program ends in a result or in one sentence and exit code 2.

500 cases in `make test`; `make torture` runs 10,000 (HOSTILE_CASES=10000).
"""

import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contrastive.program.settings import Settings
from tests.helpers import ROOT
from tests.hostile import (
    DRY,
    NODES,
    RAW_YAML,
    SMALL,
    SOUND_NODES,
    check,
    choose,
    folders,
    keys_of,
    overrides,
    write_folder,
)

CASES = int(os.environ.get("HOSTILE_CASES", "500"))
SEED = bool(os.environ.get("HOSTILE_CASES"))


def cases(share: float) -> settings:
    """A share of the cases; the same ones at every run unless HOSTILE_CASES asks for fresh ones."""
    return settings(
        max_examples=max(1, round(CASES * share)), deadline=None, derandomize=not SEED, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
    KEYS = keys_of(Settings.from_config(compose("train", DRY)))


@pytest.mark.slow
@cases(0.65)
@given(overrides(KEYS))
def test_overrides(words):
    with tempfile.TemporaryDirectory() as folder:
        check([*DRY, *words], Path(folder))


@pytest.mark.slow
@cases(0.25)
@given(st.sampled_from(["loss", "encoder", "head", "evaluator", "dataset"]), NODES | SOUND_NODES | RAW_YAML)
def test_a_users_yaml(group, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine" / group / "odd.yaml"
        path.parent.mkdir(parents=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, encoding="utf-8", errors="replace")
        check(choose(group), Path(folder))
        assert not (Path(folder) / "EVIL").exists()


@pytest.mark.slow
@cases(0.1)
@given(folders(), st.sampled_from(["true", "false"]))
def test_image_folders(content, dry):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder) / "images", content)
        words = ["dataset=image_folder", "dataset.root=images", "dataset.cache=cache", *SMALL, "evaluator=[knn]"]
        check([*words, "batch_size=2", f"dry_run={dry}"], Path(folder))
