"""Runs to do: which are done, and which begin."""

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from contrastive.config.paths import CONFIGS
from contrastive.config.settings import Settings
from contrastive.errors import ConfigError
from contrastive.files import file_hash
from contrastive.run.files import write_config
from contrastive.study import jobs
from contrastive.study.jobs import Run, is_done, slow_imports
from tests.helpers import SOUND_CONFIG, write_finished


def finish(run: Run, **config: Any) -> None:
    write_finished(run.path, config=config, environment={"device": "X"}, time={"seconds": 60})
    write_config(run.path, SOUND_CONFIG | config)


@pytest.mark.parametrize(("data", "imports"), [("digits", ["sklearn.datasets"]), ("cifar10", [])])
def test_scikit_learn_is_imported_once_for_the_data_that_need_it(data, imports):
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        assert slow_imports(compose("train", [f"dataset={data}"])) == imports


def test_done_is_a_result_of_the_same_configuration(tmp_path):
    one = Run(row="A", overrides=("loss=nt_xent", "seed=0"), path=tmp_path / "seed=0")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose("train", [*one.overrides, "epochs=3"])
    assert not is_done(one, lambda overrides: cfg)
    finish(one, **Settings.from_config(cfg).to_dict() | {"device": "cuda"})
    seen = []
    assert is_done(one, lambda overrides: seen.append(overrides) or cfg)
    assert seen == [("loss=nt_xent", "seed=0")]
    environment = json.loads((one.path / "environment.json").read_text())
    for own, is_same in (({"my_loss": "edited since"}, False), ({}, True)):
        (one.path / "environment.json").write_text(json.dumps({**environment, "modules": own}))
        assert is_done(one, lambda overrides: cfg) == is_same
    weights = tmp_path / "start.safetensors"
    weights.write_bytes(b"first")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        started = compose("train", [*one.overrides, "epochs=3", f"encoder.weights={weights}"])
    finish(one, **Settings.from_config(started).to_dict())
    (one.path / "environment.json").write_text(json.dumps({**environment, "weights": file_hash(weights)}))
    assert is_done(one, lambda overrides: started)
    weights.write_bytes(b"trained again")
    assert not is_done(one, lambda overrides: started)
    finish(one, **Settings.from_config(cfg).to_dict())
    seen.clear()
    cfg.epochs = 4
    assert not is_done(one, lambda overrides: cfg)
    cfg.epochs = 3
    (one.path / "result.json").write_text("null")
    assert not is_done(one, lambda overrides: cfg)  # damaged: the program computes it again


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
