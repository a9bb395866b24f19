"""Public data sets in the layout in which they are downloaded: what is taken from where, and the page that says so."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrastive.dataset.image_folder import listed_images
from contrastive.errors import ConfigError
from contrastive.listing.found import Found
from contrastive.listing.names import split_of
from contrastive.listing.places import places
from tests.helpers import ROOT, write_files

TWO = ("a", "b")


def write(base: Path, *folders: str, n: int = 5, suffix: str = ".jpg") -> None:
    """n images in each folder."""
    for folder in folders:
        (base / folder).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            Image.new("RGB", (4, 4), (i, 0, 0)).save(base / folder / f"{folder.replace('/', '_')}_{i}{suffix}", "JPEG")


def classes(*splits: str, names: Sequence[str] = TWO) -> list[str]:
    return [f"{split}/{name}" for split in splits for name in names]


# folders, options of `write`, and the files beside them
CATS = classes("train", "validation", names=("cats", "dogs")), {}, {"vectorize.py": "pass"}
INTEL = [*classes("seg_train/seg_train", "seg_test/seg_test"), "seg_pred/seg_pred"], {}, {}
CHEST = (
    [f"chest_xray/{again}{name}" for again in ("", "chest_xray/") for name in classes("train", "val", "test")], {},
    {"chest_xray/__MACOSX/chest_xray/train/._a.jpeg": "x"},
)  # fmt: skip
BREEDS = "id,breed\n" + "".join(f"train_{i},{'pug' if i % 2 else 'boxer'}\n" for i in range(10))
DOGS = ["train", "test"], {"n": 10}, {"labels.csv": BREEDS}
TINY = (
    ["train/n01/images", "train/n02/images", "val/images", "test/images"], {"suffix": ".JPEG"},
    {"val/val_annotations.txt": "val_0.JPEG\tn01\t0\t0\t1\t1\n"},
)  # fmt: skip
ILSVRC = (
    [f"ILSVRC/Data/CLS-LOC/{name}" for name in ("train/n01", "train/n02", "val", "test")], {"suffix": ".JPEG"},
    {"ILSVRC/Annotations/CLS-LOC/train/n01/x.xml": "x", "ILSVRC/ImageSets/CLS-LOC/val.txt": "x 1\n"},
)  # fmt: skip
OF_EACH = ("train/good", "test/good", "test/broken", "ground_truth/broken")
MVTEC = [f"{category}/{name}" for category in ("bottle", "cable") for name in OF_EACH], {}, {}
BIRDS = (
    ["CUB_200_2011/images/001.Albatross", "CUB_200_2011/images/002.Auklet"], {},
    {"CUB_200_2011/parts/parts.txt": "1 back\n", "CUB_200_2011/images.txt": "1 x\n"},
)  # fmt: skip
PETS = ["images", "annotations/trimaps"], {}, {}
PARTS = ["train"] * 4 + ["id_val"] * 2 + ["id_test"] * 2 + ["val"] * 2 + ["test"] * 2
ROWS = "".join(f"{part},{i % 3},{i % 2},train_{i}.jpg\n" for i, part in enumerate(PARTS))
CAMERAS = ["train"], {"n": 12}, {"metadata.csv": f"split,location_remapped,y,filename\n{ROWS}"}
WILDS = {
    "table": "metadata.csv",
    "columns": {"path": "filename", "split": "split", "label": "y", "bias": "location_remapped"},
    "splits": {"id_val": None, "id_test": None},
}
# on the page: (download, folder that is typed, settings, {split: images}, classes, what the report says)
LAYOUTS: dict[str, tuple[Any, str, dict[str, Any], dict[str, int], int, str]] = {
    "cats_and_dogs_filtered": (CATS, "", {}, {"train": 10, "test": 10}, 2, "test   10 images, validation/"),
    "Intel scenes": (INTEL, "", {}, {"train": 10, "test": 10}, 2, "not used: seg_pred/"),
    "Chest X-ray": (
        CHEST, "", {}, {"train": 10, "val": 10, "test": 10}, 2, "train  10 images, chest_xray/train/",
    ),
    "Dog breeds": (
        DOGS, "", {"table": "labels.csv", "columns": {"path": "id", "label": "breed", "split": None, "bias": None}},
        {"train": 8, "test": 2}, 2, "boxer (5), pug (5)",
    ),
    "Tiny ImageNet": (TINY, "train", {}, {"train": 8, "test": 2}, 2, "n01 (5), n02 (5)"),
    "ILSVRC": (ILSVRC, "ILSVRC/Data/CLS-LOC/train", {}, {"train": 8, "test": 2}, 2, "a fixed fifth"),
    "MVTec": (MVTEC, "bottle", {}, {"train": 5, "test": 10}, 0, "not used: ground_truth/"),
    "CUB-200": (BIRDS, "", {}, {"train": 8, "test": 2}, 2, "CUB_200_2011/images/"),
    "WILDS": (CAMERAS, "", WILDS, {"train": 4, "val": 2, "test": 2}, 2, "left out: 2, of the split id_val"),
}  # fmt: skip


def taken(found: Found) -> dict[str, int]:
    return {split: sum(counts.values()) for split, counts in found.splits.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_public_download_is_read_as_the_page_says(tmp_path: Path, name: str) -> None:
    (folders, options, texts), folder, settings, splits, n_classes, said = LAYOUTS[name]
    write(write_files(tmp_path, texts), *folders, **options)
    listing = listed_images(tmp_path / folder, **settings)
    assert taken(listing.found()) == splits
    assert len(listing.classes) == n_classes
    assert said in str(listing.found())
    assert name in (ROOT / "docs/images.md").read_text()


@pytest.mark.parametrize(
    ("download", "sentence"),
    [
        (TINY, r"no test images in folders of the classes \(.*val_annotations\.txt tells .* try .*root=.*train"),
        (ILSVRC, r"no test images in folders of the classes: put .* try dataset\.root=.*CLS-LOC/train"),
        (MVTEC, r"bottle has a train/ of its own, so it is no class: try dataset\.root=.*bottle$"),
        (PETS, r"annotations/, images/ of .* are no classes by their names: try dataset\.root=.*images$"),
    ],
)  # fmt: skip
def test_a_layout_that_is_not_understood_is_refused_with_what_to_type(tmp_path, download, sentence) -> None:
    folders, options, texts = download
    write(write_files(tmp_path, texts), *folders, **options)
    with pytest.raises(ConfigError, match=sentence):
        listed_images(tmp_path)


def test_what_programs_leave_behind_is_one_line_and_no_class(tmp_path: Path) -> None:
    write(tmp_path, "cat", "dog", ".ipynb_checkpoints", "cat/@eaDir", "__MACOSX/cat")
    for i in range(50):
        (tmp_path / f"dog/._{i}.jpg").write_bytes(b"x")
    found = listed_images(tmp_path).found()
    assert found.splits["train"] == {"cat": 4, "dog": 4}
    (line,) = (line for line in str(found).splitlines() if line.startswith("left out"))
    assert line.startswith("left out: 53, left behind by a program (.ipynb_checkpoints, __MACOSX, cat/@eaDir, ...)")


def test_the_runs_of_a_program_that_was_started_in_the_folder_of_the_images_are_no_class(tmp_path: Path) -> None:
    write(tmp_path, "cat", "dog")
    before = listed_images(tmp_path), places({"_target_": "mine.Images", "root": str(tmp_path)})
    write(tmp_path, "outputs/image_folder/nt_xent/default/seed=0", "multirun/2026-11-28")
    after = listed_images(tmp_path), places({"_target_": "mine.Images", "root": str(tmp_path)})
    assert after[0].splits == before[0].splits and after[0].classes == ("cat", "dog")
    assert after[1] == before[1]


def test_files_of_another_suffix_are_counted_and_a_class_of_nothing_else_is_named_or_refused(tmp_path: Path) -> None:
    write(tmp_path, "cat", "dog")
    write_files(tmp_path, {**{f"bird/{i}.HEIC": "x" for i in range(4)}, "cat/notes.txt": "x"})
    said = str(listed_images(tmp_path).found())
    assert "left out: 5, no image by its suffix: .heic 4, .txt 1 (bird/0.HEIC" in said
    assert "bird/ has no image and is no class" in said
    write(tmp_path / "split", *classes("train", "test"))
    write_files(tmp_path, {"split/train/bird/0.HEIC": "x"})
    with pytest.raises(ConfigError, match=r"class bird has no image in .*train/: save them as"):
        listed_images(tmp_path / "split")


def test_names_that_differ_in_their_unicode_form_alone_are_one_class(tmp_path: Path) -> None:
    one, other = "caf\u00e9", "cafe\u0301"
    write(tmp_path, f"train/{other}", "train/tea", f"test/{one}", "test/tea")
    assert listed_images(tmp_path).found().splits["test"] == {one: 5, "tea": 5}
    write(tmp_path / "flat", one, other, "tea")
    assert listed_images(tmp_path / "flat").classes == (one, "tea")
    rows = [
        f"{split}/{name}/{split}_{name}_{i}.jpg,{split},{name}\n"
        for split, name in (("train", other), ("test", one))
        for i in range(5)
    ]
    write_files(tmp_path, {"t.csv": "file,split,kind\n" + "".join(rows)})
    columns = {"path": "file", "label": "kind", "bias": None}
    assert listed_images(tmp_path, table="t.csv", columns=columns).classes == (one,)


def test_folders_whose_names_tell_no_split_are_told_by_a_setting(tmp_path: Path) -> None:
    write(tmp_path, *classes("train", "train_2", "holdout"))
    with pytest.raises(ConfigError, match=r"two folders for train|no test images"):
        listed_images(tmp_path)
    found = listed_images(tmp_path, splits={"train_2": None, "holdout": "test"}).found()
    assert found.places == {"train": "train/", "test": "holdout/"}
    with pytest.raises(ConfigError, match=r"has train, val, test and null, got dev: try 'dataset\.splits="):
        listed_images(tmp_path, splits={"holdout": "dev"})


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("words", [("Train", "TEST"), ("training", "validation", "testing"), ("0", "1", "2")])
def test_a_table_may_have_any_delimiter_and_spelling(tmp_path: Path, delimiter: str, words: Sequence[str]) -> None:
    write(tmp_path, "x", n=6)
    rows = [("id", "split", "kind"), *((f"x_{i}", words[i % len(words)], str(i % 2)) for i in range(6))]
    write_files(tmp_path, {"t.csv": "".join(delimiter.join(row) + "\n" for row in rows)})
    listing = listed_images(tmp_path, table="t.csv", columns={"path": "id", "label": "kind", "bias": None})
    assert [len(part.files) for part in listing.splits.values()] == [6 // len(words)] * len(words)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"), ("Train", "train"), ("TRAINING", "train"), ("training_set", "train"),
        ("seg_train", "train"), ("trainset", None), ("train2017", "train"), ("TrainImages", "train"),
        ("train-images", "train"),
        ("valid", "val"), ("Validation", "val"), ("val", "val"), ("dev", "val"), ("test_set", "test"), ("TEST", "test"),
        ("train_test", None), ("train station", None), ("set", None), ("cat", None), ("test_cat", None), ("", None),
    ],
)  # fmt: skip
def test_a_split_is_recognized_in_any_spelling_and_nothing_else_is(name: str, split: str | None) -> None:
    assert split_of(name) == split
