"""Runs to do: which begin."""

import math
from types import SimpleNamespace

import pytest
from hydra import compose, initialize_config_dir

from contrastive.config import CONFIGS
from contrastive.errors import ConfigError
from contrastive.study import jobs
from contrastive.study.jobs import slow_imports


@pytest.mark.parametrize(("data", "imports"), [("digits", ["sklearn.datasets"]), ("cifar10", [])])
def test_scikit_learn_is_imported_once_for_the_data_that_need_it(data, imports):
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        assert slow_imports(compose("train", [f"dataset={data}"])) == imports


def test_no_run_begins_that_would_not_end(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    time_left = jobs.TimeLeft(seconds=600, minutes={"short": 5.0, "long": 10.0, "new": None}.get)
    assert [time_left.fits(name) for name in ("long", "short", "new")] == [False, True, True]
    now[0] += 599  # 30 seconds of start and 330 of work are more than what is left
    assert [time_left.fits(name) for name in ("short", "new")] == [False, True]
    now[0] += 2
    assert not time_left.fits("new")
    assert time_left.left == ["long", "short", "new"]
    with pytest.raises(ConfigError, match=r"3 runs would not have ended in --seconds 600: try the same command again"):
        time_left.check()
    assert jobs.TimeLeft(seconds=math.inf, minutes=None).fits("long"), "nothing is read for it"
    with pytest.raises(ConfigError, match=r"--seconds must be above 0, got 0: try --seconds 840"):
        jobs.TimeLeft(seconds=0, minutes={}.get)
