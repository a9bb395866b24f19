"""Generated bad input: whatever is typed or read, the program ends in a result or in one sentence and exit code 2.

500 cases in `make test-all`; `make torture` runs 10,000 (HOSTILE_CASES=10000) and counts the
results (exit code 0) and the refusals (2).
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from contrastive.config.settings import Settings
from tests.cli import hostile
from tests.cli.hostile import DRY, NODES, RAW_YAML, SMALL, SOUND_NODES, check
from tests.helpers import ROOT

resource = pytest.importorskip("resource")  # not on Windows

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
    """At most 12 GiB more than now: a word that asks for more gets an error, as with `ulimit -d`, and is not killed.

    What the tests before have reserved does not count: beyond the limit any small allocation fails, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    reserved = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (reserved + 12 * 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@cases(0.6)
@given(hostile.overrides(KEYS))
def test_overrides(words):
    with tempfile.TemporaryDirectory() as folder:
        event(f"exit code {check([*DRY, *words], Path(folder))}")


@cases(0.3)
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
