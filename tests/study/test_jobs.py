"""Runs to do: which begin."""

import math
from types import SimpleNamespace

import pytest

from contrastive.errors import ConfigError
from contrastive.study import jobs


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
