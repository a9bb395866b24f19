"""augmentation=callable: any pipeline of one image, the same views whatever the processes and interruptions."""

import random
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from contrastive import pretrain
from contrastive.augmentation.callable import PerImage
from contrastive.errors import ConfigError
from contrastive.run.provenance import module_hashes
from contrastive.seeding import generator
from tests.helpers import ROOT, check_resumes

PIPELINE = v2.Compose(
    [v2.RandomResizedCrop(6, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4, 0.1)]
)
IMAGES = torch.randint(256, (5, 3, 9, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def views(function, images=IMAGES, **options) -> torch.Tensor:
    augmentation = PerImage(transform="my_module.transform", function=function, **options)
    return augmentation.apply(images, augmentation.draw(len(images), 9, 8, generator("cpu", 0)))


def all_generators(image: Image.Image) -> np.ndarray:
    """Moves the image by the next number of each global generator."""
    shift = random.random() + np.random.rand() + torch.rand(()).item()
    return (np.asarray(image, dtype=np.float32) / 255 + shift) / 4


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_views_are_those_of_the_function_seed_by_seed(workers):
    augmentation = PerImage(transform="t", function=PIPELINE, workers=workers)
    drawn = augmentation.draw(5, 9, 8, generator("cpu", 0))
    expected = []
    for image, seed in zip(IMAGES, drawn["transform"]["seed"].tolist(), strict=True):
        torch.manual_seed(seed)
        view = PIPELINE(Image.fromarray(image.permute(1, 2, 0).numpy()))
        expected.append(torch.from_numpy(np.array(view)).permute(2, 0, 1) / 255)
    assert augmentation.apply(IMAGES, drawn).equal(torch.stack(expected))
    assert augmentation.output_size(9, 8) == (6, 6)


def test_every_global_generator_has_the_seed_and_goes_on_where_it_was():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    first = views(all_generators, workers=0)
    assert first.equal(views(all_generators, workers=2))
    assert len({x.item() for x in first[:, 0, 0, 0] - IMAGES[:, 0, 0, 0] / 255 / 4}) == 5  # an own one for each image
    assert before[0] == random.getstate()
    assert before[1] == np.random.get_state()[1].tolist()
    assert before[2].equal(torch.get_rng_state())


FEW_FILES = """
import resource, torch
from contrastive.augmentation.callable import PerImage
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
augmentation = PerImage(transform="t", function=lambda image: image, workers=1)
images = torch.arange(512 * 12).reshape(512, 3, 2, 2).to(torch.uint8)
drawn = augmentation.draw(512, 2, 2, torch.Generator())
assert augmentation.apply(images, drawn).equal(images / 255)
"""


@pytest.mark.slow
def test_a_large_batch_takes_few_open_files():
    subprocess.run([sys.executable, "-c", FEW_FILES], cwd=ROOT, check=True, timeout=120)


class Pipeline:
    """Called as those of albumentations are, whose generators are their own."""

    def set_random_seed(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, *, image: np.ndarray) -> dict[str, np.ndarray]:
        assert image.shape == (9, 8, 3)
        return {"image": np.roll(image, self.rng.integers(8), axis=1)}


Pipeline.__module__ = "albumentations.core.composition"


def test_a_pipeline_of_albumentations_is_called_by_its_keyword_and_seeded():
    first = views(Pipeline(), workers=0)
    assert first.equal(views(Pipeline(), workers=2))
    shifts = [
        shift for x, image in zip(first, IMAGES, strict=True) for shift in range(8)
        if x.equal(torch.roll(image, shift, 2) / 255)
    ]  # fmt: skip
    assert len(shifts) == 5 and len(set(shifts)) > 1


def test_draws_that_no_seed_reaches_are_refused_before_the_training():
    """Workers are forked with one state: both views of an image would be the same."""
    rng = np.random.default_rng(0)

    def shift(image: Image.Image, share: float) -> np.ndarray:
        return np.roll(np.array(image), rng.integers(1, 8) if np.random.rand() < share else 0, axis=1)

    for share in (1, 0.05):
        own = PerImage(transform="my.shift", function=partial(shift, share=share))
        with pytest.raises(ConfigError, match=r"^my\.shift draws from a generator of its own, .*: try draws of random"):
            own.output_size(9, 8)
    assert PerImage(transform="t", function=all_generators).output_size(9, 8) == (9, 8)


@pytest.mark.parametrize(
    ("kind", "images", "seen"),
    [
        ("pil", IMAGES, "RGB"), ("pil", IMAGES[:, :1], "L"), ("numpy", IMAGES, (9, 8, 3)),
        ("tensor", IMAGES.int().mul(257).to(torch.uint16), torch.uint16), ("numpy", IMAGES[:, [0, 1, 2, 0]], (9, 8, 4)),
    ],
)  # fmt: skip
def test_a_function_gets_the_kind_of_image_that_it_takes(kind, images, seen):
    found = []

    def same(image):
        found.append(image.mode if kind == "pil" else image.dtype if kind == "tensor" else image.shape)
        return image

    of = 65_535 if images.dtype == torch.uint16 else 255
    assert views(same, images, image=kind, workers=0).allclose(images.float() / of)
    assert set(found) == {seen}


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.1])]),
            r"values in \[0, 1\]",
        ),
        (lambda image: image.convert("L"), r"3 channels, .* got \[\(1, 9, 8\)\]"),
        (lambda image: image.resize((random.randint(4, 7), 5)), r"one size .* got \[\(3, 5, \d\), \(3, 5, \d\)\]"),
        (lambda image: np.asarray(image).astype(np.int64), "int64, not an image"),
        (lambda image: None, "NoneType, not an image"),
        (lambda image: np.full((9, 8, 3), np.nan, np.float32), "nan"),
    ],
    ids=["normalized", "gray", "sizes", "int64", "nothing", "nan"],
)
def test_what_is_no_view_is_one_sentence(function, sentence):
    for workers in (0, 1):
        with pytest.raises(ConfigError, match=f"{sentence}.*: try"):
            views(function, workers=workers)


@pytest.fixture
def own_module(monkeypatch, tmp_path) -> str:
    """A module of the user's with `transform`, which can be imported."""
    (tmp_path / "my_pipeline.py").write_text(
        "from torchvision.transforms import v2\n"
        "transform = v2.Compose([v2.RandomCrop(8, padding=2), v2.ColorJitter(0.4, 0.4)])\n"
        "def flipped(image):\n    return v2.functional.hflip(image)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "my_pipeline"


@pytest.mark.slow
def test_a_killed_run_goes_on_exactly_with_other_processes(composed, own_module, tmp_path):
    words = ["device=cpu", "dataset.size=8", "encoder.width=2", "epochs=2", "log_every=1", "evaluator=[]"]
    words += ["augmentation=callable", f"augmentation.transform={own_module}.transform", "checkpoint_every_minutes=0"]
    settings = [composed(*words, f"augmentation.workers={n}") for n in (0, 2)]
    check_resumes(3, settings[0], tmp_path, after=settings[1])


def test_the_code_of_the_function_belongs_to_the_run(composed, own_module):
    words = ["augmentation=callable", f"augmentation.transform={own_module}.transform"]
    assert own_module in module_hashes(composed(*words).to_dict())


def test_pretrain_takes_a_function_of_a_module(own_module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = __import__(own_module)
    small = {"dataset.size": 8, "encoder.width": 2, "epochs": 1, "evaluator": ["knn"], "quiet": True}
    result = pretrain("hydra.run.dir=run", augmentation=module.flipped, device="cpu", **small)
    assert f"transform: {own_module}.flipped" in (Path(result.path) / "config.yaml").read_text()
    for unnamed in (lambda image: image, module.transform):
        with pytest.raises(ConfigError, match=re.escape("augmentation.transform=my_module.transform")):
            pretrain(augmentation=unnamed, **small)


@pytest.mark.slow
def test_the_processes_end_with_the_run_that_is_killed(own_module, tmp_path):
    words = ["dataset.size=8", "encoder.width=2", "epochs=100", "augmentation=callable", "augmentation.workers=2"]
    command = [sys.executable, str(ROOT / "train.py"), *words, f"augmentation.transform={own_module}.transform"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    until = time.monotonic() + 120
    while len(pids := children.read_text().split()) < 2 and time.monotonic() < until:
        time.sleep(0.2)
    assert len(pids) >= 2
    run.kill()
    run.wait()
    while any(is_alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
