"""The faster ways to take a step are the same step; and what a run would cost."""

import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.program.build import build, resident
from contrastive.program.dry_run import clock, project
from contrastive.program.experiment import run
from contrastive.seeding import generator
from tests.conftest import TINY, program
from tests.test_run import lines

QUICK = [*TINY, "epochs=1", "precision=fp32", "batch_size=64"]


@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize("loss", ["debiased_pos", "eps_supinfonce"])
def test_compiled_pieces_take_the_same_steps(composed, loss):
    def steps(*words):
        built = build(
            composed(
                *QUICK,
                "encoder=simple_convnet",
                "encoder.width=2",
                f"loss={loss}",
                "optimizer=sgd",
                "optimizer.lr=0.01",
                *words,
            )
        )
        trainer, loader = built.trainer, built.loader
        rng, losses, gradients = generator("cpu", 0), [], []
        for _, batch in zip(range(4), loader.epoch(0), strict=False):
            losses.append(trainer.step(batch, rng)[0])
            gradients = gradients or [p.grad.clone() for p in trainer.encoder.parameters()]
        return gradients, torch.stack(losses)

    (gradients, losses), (compiled_gradients, compiled_losses) = steps(), steps("compile=true")
    assert losses.std() > 0
    torch.testing.assert_close(compiled_gradients, gradients, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(compiled_losses, losses, rtol=1e-4, atol=0)  # after four steps of rounding


def test_streamed_batches_are_the_resident_ones(composed):
    held, streamed = (
        build(composed(*QUICK, "noise_frac=0.3", f"resident={word}")).loader for word in ("true", "false")
    )
    assert streamed.streaming
    assert not held.streaming
    for mine, theirs in zip(streamed.epoch(1), held.epoch(1), strict=True):
        assert torch.equal(mine.image, theirs.image)
        assert torch.equal(mine.mate, theirs.mate)
        assert torch.equal(mine.label, theirs.label)
    next(streamed.epoch(2))  # an epoch left early leaves no thread waiting


def test_images_stream_when_half_of_what_is_free_does_not_hold_them(composed, monkeypatch):
    data = build(composed(*QUICK)).evaluator.data
    assert resident(data, torch.device("cpu"), "auto")
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_AVPHYS_PAGES": 2 * data.nbytes - 1, "SC_PAGE_SIZE": 1}[name])
    assert not resident(data, torch.device("cpu"), "auto")


def test_a_streamed_run_gives_the_same_run(composed, tmp_path):
    for word in ("true", "false"):
        run(composed(*QUICK, f"resident={word}"), tmp_path / word)
    assert lines(tmp_path / "true") == lines(tmp_path / "false")


def test_a_dry_run_says_what_the_run_would_take_and_writes_nothing(composed, tmp_path):
    done = program(*QUICK, "dry_run=true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"training +[\d.]+ s +1 epochs of 22 steps", done.stdout)
    assert re.search(r"peak memory +0\.\d\d GiB", done.stdout)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    assert "2000 epochs of 22 steps" in project(build(composed(*QUICK, "epochs=2000")), knn_every=1)
    assert [clock(s) for s in (4.06, 187, 7510)] == ["4.1 s", "3 min 07 s", "2 h 05 min"]


def test_the_imagenet100_recipe_on_a_small_folder(tmp_path):
    rng = np.random.default_rng(0)
    for split, n in (("train", 12), ("test", 3)):
        for name in ("n01440764", "n02077923", "n03954731"):
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = rng.integers(0, 256, (rng.integers(40, 70), rng.integers(40, 70), 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.JPEG")
    words = [
        "experiment=imagenet100",
        f"dataset.root={tmp_path}",
        f"data_root={tmp_path}",
        "dataset.size=48",
        "device=cpu",
        "augmentation.size=32",
        "augmentation.blur_kernel=5",
        "encoder.width=2",
        "batch_size=12",
        "epochs=2",
        "resident=false",
        "probe.max_iter=5",
    ]
    done = program(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("cache/*.images"))) == 2
    assert "epochs of 3 batches" in done.stdout
    (config,) = tmp_path.glob("outputs/image_folder/nt_xent/*/seed=0/config.yaml")
    assert "stem: large" in config.read_text()
