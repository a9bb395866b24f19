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
from tests.helpers import ROOT

PAGE = (ROOT / "docs/images.md").read_text()
TWO = ("a", "b")


def write(base: Path, *folders: str, n: int = 5, suffix: str = ".jpg") -> None:
    """n images in each folder."""
    for folder in folders:
        (base / folder).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            Image.new("RGB", (4, 4), (i, 0, 0)).save(base / folder / f"{folder.replace('/', '_')}_{i}{suffix}", "JPEG")


def text(base: Path, name: str, *lines: str) -> None:
    (base / name).parent.mkdir(parents=True, exist_ok=True)
    (base / name).write_text("\n".join(lines) + "\n")


def classes(*splits: str, names: Sequence[str] = TWO) -> list[str]:
    return [f"{split}/{name}" for split in splits for name in names]


def cats_and_dogs(base: Path) -> None:
    write(base, *classes("train", "validation", names=("cats", "dogs")))
    text(base, "vectorize.py", "pass")


def intel(base: Path) -> None:
    write(base, *classes("seg_train/seg_train", "seg_test/seg_test"), "seg_pred/seg_pred")


def chest(base: Path) -> None:
    splits = ("train", "val", "test")
    write(base / "chest_xray", *classes(*splits), *classes(*(f"chest_xray/{split}" for split in splits)))
    text(base, "chest_xray/__MACOSX/chest_xray/train/._a.jpeg", "x")


def dogs(base: Path) -> None:
    write(base, "train", "test", n=10)
    text(base, "labels.csv", "id,breed", *(f"train_{i},{'pug' if i % 2 else 'boxer'}" for i in range(10)))


def tiny(base: Path) -> None:
    write(base, "train/n01/images", "train/n02/images", "val/images", "test/images", suffix=".JPEG")
    text(base, "val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\t1\t1")


def ilsvrc(base: Path) -> None:
    data = "ILSVRC/Data/CLS-LOC"
    write(base, f"{data}/train/n01", f"{data}/train/n02", f"{data}/val", f"{data}/test", suffix=".JPEG")
    text(base, "ILSVRC/Annotations/CLS-LOC/train/n01/x.xml", "x")
    text(base, "ILSVRC/ImageSets/CLS-LOC/val.txt", "x 1")


def mvtec(base: Path) -> None:
    for category in ("bottle", "cable"):
        write(base / category, "train/good", "test/good", "test/broken", "ground_truth/broken")


def birds(base: Path) -> None:
    write(base / "CUB_200_2011", "images/001.Albatross", "images/002.Auklet")
    text(base, "CUB_200_2011/parts/parts.txt", "1 back")
    text(base, "CUB_200_2011/images.txt", "1 x")


def pets(base: Path) -> None:
    write(base, "images", "annotations/trimaps")


def wilds(base: Path) -> None:
    write(base, "train", n=12)
    splits = ["train"] * 4 + ["id_val"] * 2 + ["id_test"] * 2 + ["val"] * 2 + ["test"] * 2
    rows = (f"{split},{i % 3},{i % 2},train_{i}.jpg" for i, split in enumerate(splits))
    text(base, "metadata.csv", "split,location_remapped,y,filename", *rows)


WILDS = {
    "table": "metadata.csv",
    "columns": {"path": "filename", "split": "split", "label": "y", "bias": "location_remapped"},
    "splits": {"id_val": None, "id_test": None},
}
# on the page: (writer, folder that is typed, settings, {split: images}, classes, what the report says)
LAYOUTS: dict[str, tuple[Any, str, dict[str, Any], dict[str, int], int, str]] = {
    "cats_and_dogs_filtered": (cats_and_dogs, "", {}, {"train": 10, "test": 10}, 2, "test   10 images, validation/"),
    "Intel scenes": (intel, "", {}, {"train": 10, "test": 10}, 2, "not used: seg_pred/"),
    "Chest X-ray": (
        chest, "", {}, {"train": 10, "val": 10, "test": 10}, 2, "train  10 images, chest_xray/train/",
    ),
    "Dog breeds": (
        dogs, "", {"table": "labels.csv", "columns": {"path": "id", "label": "breed", "split": None, "bias": None}},
        {"train": 8, "test": 2}, 2, "boxer (5), pug (5)",
    ),
    "Tiny ImageNet": (tiny, "train", {}, {"train": 8, "test": 2}, 2, "n01 (5), n02 (5)"),
    "ILSVRC": (ilsvrc, "ILSVRC/Data/CLS-LOC/train", {}, {"train": 8, "test": 2}, 2, "a fixed fifth"),
    "MVTec": (mvtec, "bottle", {}, {"train": 5, "test": 10}, 0, "not used: ground_truth/"),
    "CUB-200": (birds, "", {}, {"train": 8, "test": 2}, 2, "CUB_200_2011/images/"),
    "WILDS": (wilds, "", WILDS, {"train": 4, "val": 2, "test": 2}, 2, "left out: 2, of the split id_val"),
}  # fmt: skip


def taken(found: Found) -> dict[str, int]:
    return {split: sum(counts.values()) for split, counts in found.splits.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_public_download_is_read_as_the_page_says(tmp_path: Path, name: str) -> None:
    writer, folder, settings, splits, n_classes, said = LAYOUTS[name]
    writer(tmp_path)
    listing = listed_images(tmp_path / folder, **settings)
    assert taken(listing.found()) == splits
    assert len(listing.classes) == n_classes
    assert said in str(listing.found())
    assert name in PAGE


@pytest.mark.parametrize(
    ("writer", "sentence"),
    [
        (tiny, r"no test images in folders of the classes \(.*val_annotations\.txt tells .* try .*root=.*train"),
        (ilsvrc, r"no test images in folders of the classes: put .* try dataset\.root=.*CLS-LOC/train"),
        (mvtec, r"bottle has a train/ of its own, so it is no class: try dataset\.root=.*bottle$"),
        (pets, r"annotations/, images/ of .* are no classes by their names: try dataset\.root=.*images$"),
    ],
)  # fmt: skip
def test_a_layout_that_is_not_understood_is_refused_with_what_to_type(
    tmp_path: Path, writer: Any, sentence: str
) -> None:
    writer(tmp_path)
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
    for i in range(4):
        text(tmp_path, f"bird/{i}.HEIC", "x")
    text(tmp_path, "cat/notes.txt", "x")
    said = str(listed_images(tmp_path).found())
    assert "left out: 5, no image by its suffix: .heic 4, .txt 1 (bird/0.HEIC" in said
    assert "bird/ has no image and is no class" in said
    write(tmp_path / "split", *classes("train", "test"))
    text(tmp_path, "split/train/bird/0.HEIC", "x")
    with pytest.raises(ConfigError, match=r"class bird has no image in .*train/: save them as"):
        listed_images(tmp_path / "split")


def test_names_that_differ_in_their_unicode_form_alone_are_one_class(tmp_path: Path) -> None:
    one, other = "caf\u00e9", "cafe\u0301"
    write(tmp_path, f"train/{other}", "train/tea", f"test/{one}", "test/tea")
    assert listed_images(tmp_path).found().splits["test"] == {one: 5, "tea": 5}
    write(tmp_path / "flat", one, other, "tea")
    assert listed_images(tmp_path / "flat").classes == (one, "tea")
    rows = [
        f"{split}/{name}/{split}_{name}_{i}.jpg,{split},{name}"
        for split, name in (("train", other), ("test", one))
        for i in range(5)
    ]
    text(tmp_path, "t.csv", "file,split,kind", *rows)
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
    rows = (delimiter.join((f"x_{i}", words[i % len(words)], str(i % 2))) for i in range(6))
    text(tmp_path, "t.csv", delimiter.join(("id", "split", "kind")), *rows)
    listing = listed_images(tmp_path, table="t.csv", columns={"path": "id", "label": "kind", "bias": None})
    assert [len(part.files) for part in listing.splits.values()] == [6 // len(words)] * len(words)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "has no line"),
        (f"file,split,y\na.png,0,{'x' * 140_000}\n", "field larger than field limit"),
        ("file,split,y\na,b.png,0,1\n", "too many columns in line 2: try quotes"),
    ],
    ids=lambda text: text[:20],
)
def test_a_table_that_cannot_be_read_is_a_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ConfigError, match=sentence):
        listed_images(tmp_path, table="t.csv", columns={"path": "file", "label": "y", "bias": None})


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
