"""Corrupted CIFAR-10, bFFHQ, CelebA, UTKFace and 9-Class ImageNet, on small folders in their genuine layout."""

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tables.spec import read_table, table_paths

from contrastive.dataset.splits import fingerprint
from contrastive.experiment.components import build_one
from contrastive.experiment.run import run_experiment
from contrastive.report.record import look_up
from contrastive.testing.components import check_dataset
from contrastive.types import Data, Split
from tests.helpers import ROOT, compose_settings, further

TABLES = ROOT / "examples/biased_csv/tables.py"
SEX = "Male"
ATTRIBUTES = ["5_o_Clock_Shadow", "Blond_Hair", "Heavy_Makeup", SEX, "Young"]  # five of the forty


def save(path: Path, *, seed: int, shape: tuple[int, int] = (16, 16)) -> None:
    """A picture of noise whose brightness depends on the seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    Image.fromarray(rng.integers(20 * (seed % 8), 256, (*shape, 3), dtype=np.uint8)).save(path)


def write_corrupted_cifar10(base: Path, *, n_classes: int = 4) -> Path:
    """cifar10c/0.5pct/{align,conflict,valid}/<class>/ and cifar10c/test/<class>/, twelve aligned to two conflicting."""
    for c in range(n_classes):
        for i in range(12):
            save(base / f"0.5pct/align/{c}/{i}_{c}_{c}.png", seed=c)
        for i in range(1, 3):
            save(base / f"0.5pct/conflict/{c}/{i}_{c}_{(c + i) % n_classes}.png", seed=c)
        for b in range(n_classes):
            save(base / f"0.5pct/valid/{c}/{b}_{c}_{b}.png", seed=c)
            save(base / f"test/{c}/{b}_{c}_{b}.png", seed=c)
    return base


def write_bffhq(base: Path) -> Path:
    """bffhq/0.5pct/{align,conflict}/<class>/, bffhq/valid/ and bffhq/test/ without class folders."""
    for y in (0, 1):
        for i in range(20):
            save(base / f"0.5pct/align/{y}/{i}_{y}_{y}.png", seed=y)
        save(base / f"0.5pct/conflict/{y}/30_{y}_{1 - y}.png", seed=y)
        for b in (0, 1):
            for i in range(4):
                save(base / f"valid/{4 * y + i}_{y}_{b}.png", seed=y)
                save(base / f"test/{4 * y + i}_{y}_{b}.png", seed=y)
    return base


def write_celeba(base: Path, n: int = 120) -> Path:
    """img_align_celeba/, and the two lists; of a hundred images sixty are for training, twenty each for the others."""
    attributes, parts = [str(n), " ".join(ATTRIBUTES)], []
    for i in range(n):
        name, values = f"{i + 1:06}.jpg", [-1] * len(ATTRIBUTES)
        values[1], values[2], values[3] = (1 if i % k == 0 else -1 for k in (3, 4, 2))
        save(base / "img_align_celeba" / name, seed=i % 3, shape=(22, 18))
        attributes.append(f"{name} {'  '.join(f'{value:2}' for value in values)}")
        parts.append(f"{name} {(0, 0, 0, 1, 2)[i % 5]}")
    (base / "list_attr_celeba.txt").write_text("\n".join(attributes) + "\n")
    (base / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return base


def write_utkface(base: Path, n: int = 300) -> Path:
    """images/<age>_<gender>_<race>_<date>.jpg.chip.jpg; one name lacks the race, as a few of the real ones do."""
    rng = np.random.default_rng(0)
    for i in range(n):
        age, gender, race = rng.integers(1, 60), rng.integers(2), rng.integers(3)
        save(base / f"images/{age}_{gender}_{race}_2017{i:013}.jpg.chip.jpg", seed=int(gender))
    save(base / "images/39_1_20170116174525125.jpg.chip.jpg", seed=0)
    return base


def write_imagenet9(base: Path) -> Path:
    """train/<class>/<wnid>/ and val/<class>/<wnid>/."""
    for name, wnid in (("bird", "n01819313"), ("dog", "n02085620"), ("dog", "n02099601")):
        for i in range(40):
            save(base / f"train/{name}/{wnid}/{wnid}_{i}.JPEG", seed=len(name))
        for i in range(4):
            save(base / f"val/{name}/{wnid}/ILSVRC2012_val_{i}.JPEG", seed=len(name))
    return base


def cells(split: Split) -> list[tuple[int, int]]:
    return sorted(zip(split.label.tolist(), split.bias.tolist(), strict=True))


def tables(layout: str, base: Path) -> Path:
    """The folder, with the tables that the command of its recipe writes."""
    subprocess.run([sys.executable, str(TABLES), layout, str(base)], check=True, capture_output=True)
    return base


def build(name: str, base: Path, *words: str) -> Data:
    """The dataset as its recipe composes it, on the images of `base`."""
    places = f"dataset.root={base}", f"dataset.cache={base}/cache"
    settings = compose_settings(f"dataset={name}", *places, "dataset.size=16", *words)
    data: Data = build_one("dataset", settings.dataset, Data)
    check_dataset(data)
    return data


def test_corrupted_cifar10_has_labels_and_biases_of_the_names(tmp_path: Path) -> None:
    base = tables("align_conflict", write_corrupted_cifar10(tmp_path / "cifar10c"))
    data = build("corrupted_cifar10", base)
    assert (data.classes, data.biases) == (tuple("0123"), tuple("0123"))
    expected = [(c, c) for c in range(4) for _ in range(12)] + [(c, (c + i) % 4) for c in range(4) for i in (1, 2)]
    assert cells(data.pretrain) == sorted(expected)
    assert cells(data.test) == cells(data.probe_val) == [(c, b) for c in range(4) for b in range(4)]
    assert data.probe_train.tolist() == list(range(56))
    assert data.facts == {"dataset_name": "cifar10c", "test_split": "rows of 0.5pct.csv"}
    (base / "0.5pct/conflict/0/1_0_1.png").rename(base / "0.5pct/conflict/0/1_0_3.png")
    assert fingerprint(build("corrupted_cifar10", tables("align_conflict", base))) != fingerprint(data)


def test_bffhq_is_tested_on_bias_conflicting_images(tmp_path: Path) -> None:
    base = tables("align_conflict", write_bffhq(tmp_path / "bffhq"))
    conflicting = build("bffhq", base)
    every = build("bffhq", base, "dataset.splits={test_aligned: test}")
    assert (len(every.test), cells(conflicting.test)) == (16, [(0, 1)] * 4 + [(1, 0)] * 4)
    assert (len(conflicting.pretrain), len(conflicting.probe_val)) == (42, 16)


def test_celeba_is_split_as_hong_and_yang_split_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_celeba(tmp_path / "celeba")
    monkeypatch.syspath_prepend(str(TABLES.parent))
    monkeypatch.delitem(sys.modules, "tables")  # that of scripts/
    script = importlib.import_module("tables")
    monkeypatch.setattr(script, "LEAST_BIASED", 3)
    script.main("celeba", str(base))
    data = build("celeba", base, "dataset.table=makeup.csv")
    assert (data.classes, data.biases) == (("makeup", "not makeup"), ("female", "male"))
    pool = sorted((int(i % 4 != 0), int(i % 2 == 0)) for i in range(120) if i % 5 < 3)
    assert sorted(cells(data.pretrain) + cells(data.probe_val)) == pool
    assert (len(data.pretrain), len(data.probe_val)) == (57, 15)  # of 72
    assert cells(data.test) == sorted((int(i % 4 != 0), int(i % 2 == 0)) for i in range(120) if i % 5 == 3)
    blonde = build("celeba", base)
    kept = cells(blonde.pretrain) + cells(blonde.probe_val)
    assert (kept.count((1, 0)), blonde.classes, blonde.biases) == (3, ("blonde", "not blonde"), ("female", "male"))
    assert len(kept) == 72 - sum(i % 3 > 0 and i % 2 == 1 for i in range(120) if i % 5 < 3) + 3


@pytest.mark.parametrize("bias", ["age", *further("race")])
def test_utkface_trains_on_a_tenth_of_bias_conflicting_images(tmp_path: Path, bias: str) -> None:
    base = tables("utkface", write_utkface(tmp_path / "utk_face"))
    data = build("utkface", base, f"dataset.table={bias}.csv")
    first, second = {"race": ("white", "other"), "age": ("20 or older", "10 or younger")}[bias]
    own = {"male": first, "female": second}  # the bias that goes along with each class
    names = [path.name.split("_") for path in (base / "images").iterdir()]
    used = [name for name in names if len(name) == 4 and (bias == "race" or not 10 < int(name[0]) < 20)]
    assert len(data.test) + len(data.probe_val) == len(used) - int(0.8 * len(used))
    assert abs(len(data.test) - len(data.probe_val)) <= 1

    def named(split: Split) -> Counter[tuple[str, str]]:
        return Counter((data.classes[y], data.biases[b]) for y, b in cells(split))

    train, held_out = named(data.pretrain), named(data.test) + named(data.probe_val)
    assert len(held_out) == 4
    for gender, other in (("male", "female"), ("female", "male")):
        assert train[other, own[gender]] == train[gender, own[gender]] // 10 > 0


FOLDERS: dict[str, tuple[str, str, Callable[[Path], Path]]] = {  # dataset, layout of its tables, folder
    "corrupted_cifar10": ("corrupted_cifar10", "align_conflict", write_corrupted_cifar10),
    "bffhq": ("bffhq", "align_conflict", write_bffhq),
    "celeba": ("celeba", "celeba", write_celeba),
    "utkface": ("utkface", "utkface", write_utkface),
    "imagenet9": ("image_folder", "", write_imagenet9),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [pytest.param(name, marks=pytest.mark.smoke if name == "bffhq" else ()) for name in FOLDERS]
)
def test_the_smoke_preset_runs_on_a_folder_in_the_genuine_layout(tmp_path: Path, table: str) -> None:
    dataset, layout, write = FOLDERS[table]
    folder = write(tmp_path / "data")
    if layout:
        tables(layout, folder)
    words = [f"dataset={dataset}", f"dataset.root={folder}", f"dataset.cache={tmp_path}/cache", "device=cpu"]
    words += ["encoder.pretrained=false"] if table in ("celeba", "utkface") else []
    words += ["augmentation.ops.crop.size=8"] if table == "utkface" else []
    spec = read_table(table_paths()[table], preset="smoke", extra=tuple(words))
    rows = [row for row in spec.rows if row.overrides]
    assert rows
    for i, row in enumerate(rows):
        result = run_experiment(compose_settings(*row.overrides, "seed=0"), tmp_path / f"run{i}")
        assert not [metric for metric in spec.metrics if look_up(result, metric) is None], row.name
