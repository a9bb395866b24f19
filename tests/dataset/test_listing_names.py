"""What names mean, and the report of what was found."""

import pytest

from contrastive.listing.found import Found
from contrastive.listing.names import split_of


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


def test_the_report_counts_classes_reasons_and_notes() -> None:
    found = Found(
        splits={"train": {"cat": 10, "dog": 9}, "test": {"cat": 2, "dog": 3}},
        places={"train": "Train/"},
        left_out={"no image by its suffix": ["a.heic", "b.heic", "c.heic", "d\x1b.heic"]},
        notes=("3 images are turned by their EXIF orientation",),
    )
    assert str(found).splitlines() == [
        "train  19 images, Train/",
        "test   5 images",
        "2 classes: cat (12), dog (12)",
        "left out: 4, no image by its suffix (a.heic, b.heic, c.heic, ...)",
        "3 images are turned by their EXIF orientation",
    ]
    assert found.record()["left_out"]["no image by its suffix"] == {"n": 4, "first": ["a.heic", "b.heic", "c.heic"]}
