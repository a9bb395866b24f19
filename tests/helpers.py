"""Shared by several test files: small configurations, the program as a process, readers of run directories."""

import copy
import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from PIL import Image
from torch import Tensor, nn

from contrastive.augmentation.compose import Compose
from contrastive.config.compose import run_name  # the module also registers the resolver
from contrastive.config.identity import COMPONENTS, OPTIONAL, config_hash
from contrastive.config.settings import Settings
from contrastive.dataset.image_folder import image_folder
from contrastive.evaluator.base import FeatureSets
from contrastive.experiment.run import run_experiment
from contrastive.run.files import write_result
from contrastive.training.features import EncodedImages
from contrastive.training.step import TrainStep
from contrastive.types import Data, Features
from tests import forked
from tests.forked import ROOT

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # a tiny network is faster on one
ANYWHERE = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
# For encoders of width 2 to 6: on CPUs without AVX-512 the backward pass of torch 2.15 writes past its memory in a
# 1 × 1 convolution of stride 2 from so few channels in the other layout. That of digits is this one.
CONTIGUOUS = "channels_last=false"
TINY = [
    "dataset.size=8",
    "encoder.width=2",
    "epochs=3",
    "batch_size=256",
    "evaluator.knn.every=1",
    "evaluator.linear.max_iter=5",
    "evaluator.few_shot.max_iter=5",
    "device=cpu",
    CONTIGUOUS,
]
BARE = [word for word in TINY if not word.startswith("evaluator.")]  # for a choice of evaluators of one's own

TERMS = [
    (group, path.stem)
    for group in ("loss", "regularizer")
    for path in sorted((ROOT / "configs" / group).glob("*.yaml"))
    if path.stem != "none"
]


def further(*cases: Any) -> list[Any]:
    """Further cases of a test, a tuple for each or its only argument: make test-all alone runs them."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]


REAL = ROOT.parent / "shared" / "data"  # real images, if they lie beside the checkout
MODES = [("RGB", (12, 12, 3)), ("L", (12, 12)), ("RGBA", (16, 12, 4)), ("RGB", (9, 30, 3))]

SOUND_ENVIRONMENT = {"command": "train.py", "code": "c", "data": "d", "threads": 1, "modules": {}}
EMPTY_RESULT: dict[str, Any] = {
    **{group: {} for group in ("test", "untrained", "val", "audit", "protocol")},
    "time": {"seconds": 1.0, "finished": ""},
    "encoder": {"features": "", "weights": None, "epochs": 1, "before": "untrained"},
    "log": {"lines": 0, "sha256": hashlib.sha256(b"").hexdigest()},
}
# the least that is the configuration of a run
SOUND_CONFIG = {
    "seed": 0,
    "channels_last": False,
    "evaluator": {},
    **{group: {"_target_": "x.Y"} for group in COMPONENTS if group not in OPTIONAL},
}


def compose_settings(*overrides: str) -> Settings:
    """The settings that these overrides give; composed once a session, which takes a quarter of a second."""
    return copy.deepcopy(_composed(overrides))


@functools.cache
def _composed(overrides: tuple[str, ...]) -> Settings:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        return Settings.from_config(compose("train", list(overrides)))


def program(*words: str, cwd: Path = ROOT, env: Mapping[str, str] = ONE_THREAD) -> "subprocess.CompletedProcess[str]":
    """Run train.py as a user does, but for Python's imports, which are done already unless joblib starts processes."""
    if "-m" in words and "hydra/launcher=basic" not in words:  # which joblib cannot do from a fork
        return python(str(ROOT / "train.py"), *words, cwd=cwd, env=env)
    return forked.run([str(ROOT / "train.py"), *words], cwd=cwd, env=env)


def module(name: str, *words: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """Run python -m contrastive NAME likewise."""
    return forked.run(["-m", "contrastive", name, *words], cwd=cwd, env=ONE_THREAD)


def python(*words: str, cwd: Path, env: Mapping[str, str] = ANYWHERE) -> "subprocess.CompletedProcess[str]":
    """python WORDS from the first import on, which takes seconds."""
    return subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=600, env=env)


def started(*words: str, cwd: Path, **options: Any) -> "subprocess.Popen[str]":
    """train.py in a process that may start others, as a user starts it: while it runs."""
    command = [sys.executable, str(ROOT / "train.py"), *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=ANYWHERE, text=True, **pipes, **options)


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    """{name: text} below a folder, with the folders between."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def logged_lines(path: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the keys that measure time."""
    return [
        {key: value for key, value in json.loads(line).items() if not key.startswith("time/")}
        for line in (path / "metrics.jsonl").read_text().splitlines()
    ]


def saved_weights(path: Path) -> dict[str, torch.Tensor]:
    """Encoder and head of the last checkpoint."""
    state = torch.load(path / "checkpoints/last.pt", weights_only=True)
    return {**state["encoder"], **{f"head.{key}": value for key, value in state["head"].items()}}


def without_time(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ("time", "log", "checksum")}  # of times, too


def check_same(path: Path, expected: Path) -> None:
    """Two finished runs have the same curves, figures and weights, bit for bit."""
    assert logged_lines(path) == logged_lines(expected)
    found, figures = (json.loads((run / "result.json").read_text()) for run in (path, expected))
    assert without_time(found) == without_time(figures)
    weights = saved_weights(path)
    assert all(torch.equal(weights[key], value) for key, value in saved_weights(expected).items())


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the file exists; fail if the process ends before."""
    for _ in range(4800):  # four minutes: a busy machine needs more than one
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


def restore_sigint() -> None:
    """Undo what a shell does to programs it starts in the background: they ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def blobs(n: int, seed: int, noise: float = 1.0) -> Features:
    """Features of four overlapping classes in eight dimensions."""
    rng = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 4
    return Features(torch.randn(n, 8, generator=rng) * noise + 3 * F.one_hot(label, 8).float(), label)


def feature_sets(train: Features, val: Features, test: Features) -> FeatureSets:
    """The input of evaluators for these features; the bank is train and val together."""
    bank = Features(torch.cat([train.h, val.h]), torch.cat([train.label, val.label]))
    return FeatureSets(bank=bank, train=train, val=val, test=test, n_classes=4)


def encoded(encoder: nn.Module, data: Data, normalize: Callable[[Tensor], Tensor], **options: Any) -> EncodedImages:
    """What evaluators read of an encoder; without another dataset."""
    options = {"augmentation": Compose(ops={}), "seed": 0, "load_other": lambda name: data} | options
    return EncodedImages(encoder=encoder, data=data, normalize=normalize, **options)


def write_image_folder(root: Path, *, seed: int = 0, n: int = 20) -> Path:
    """n training and 4 test images of each of two classes, in several modes and shapes."""
    rng = np.random.default_rng(seed)
    for part, n_images in (("train", n), ("test", 4)):
        for c, name in enumerate(("ant", "bee")):
            (root / part / name).mkdir(parents=True)
            for i in range(n_images):
                mode, shape = MODES[i % 4]
                pixels = rng.integers(0, 200, shape, dtype=np.uint8) + 50 * c
                Image.fromarray(pixels.astype(np.uint8), mode).save(root / part / name / f"{i:03}.png")
    return root


def load_image_folder(folder: Path, **options: Any) -> Data:
    """The folder at 12 pixels, decoded into a cache inside it."""
    return image_folder(**{"root": str(folder), "size": 12, "cache": str(folder / "cache"), **options})


def run_until_step(n: int, settings: Settings, path: Path, overrides: Sequence[str] = ()) -> None:
    """Start a run that Ctrl-C stops in place of its nth training step, counted from 1."""
    step, calls = TrainStep.__call__, 0

    def interrupted(self: TrainStep, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == n:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainStep, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(settings, path, overrides)


def check_resumes(n: int, settings: Settings, path: Path, *, after: Settings | None = None) -> dict[str, Any]:
    """A run stopped in place of its nth step goes on, with settings of its own, to what the whole one gives."""
    result = run_experiment(settings, path / "whole")
    run_until_step(n, settings, path / "cut")
    run_experiment(after or settings, path / "cut")
    check_same(path / "cut", path / "whole")
    return result


def write_finished(path: Path, *, config: Mapping[str, Any], environment: Mapping[str, Any], **result: Any) -> Path:
    """What reports read of a finished run, on top of the least that is sound."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.yaml").write_text(json.dumps({**SOUND_CONFIG, **config}))  # JSON is YAML
    (path / "environment.json").write_text(json.dumps({**SOUND_ENVIRONMENT, **environment}))
    write_result(path, {**EMPTY_RESULT, "made_by": {"config": config_hash({**SOUND_CONFIG, **config})}, **result})
    return path


def run_named(*overrides: str) -> str:
    """The directory below outputs/ of the run that these overrides compose."""
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        setup_globals()
        loader = GlobalHydra.instance().config_loader()
        config = loader.load_configuration("train", list(overrides), run_mode=RunMode.RUN)
        config.hydra.job.config_name = "train"
        return run_name(_root_=config)


# a loss on one stream of biased digits, and a regularizer on a second one
TWO_STREAMS = [
    "experiment=bc_bb", "dataset=biased_digits", "dataset.rho=0.9", "dataset.size=8", "encoder.width=2",
    "encoder.kernel_size=3", "precision=fp32", "device=cpu", "epochs=2", "log_every=2", "batch_size=64", "n_views=2",
    "augmentation=rotation_jitter", "evaluator=[classifier]", "regularizer.batch_size=256",
]  # fmt: skip
