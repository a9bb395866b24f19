"""What names mean, and the report of what was found."""

import pytest

from contrastive.listing.found import Found
from contrastive.listing.names import by_suffix, composed, is_image, is_of_a_tool, split_of


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


def test_leftovers_of_programs_are_no_data() -> None:
    assert all(map(is_of_a_tool, ("._cat.jpg", ".ipynb_checkpoints", "__MACOSX", "@eaDir", ".DS_Store", ".git")))
    assert not any(map(is_of_a_tool, ("cat", "_cat.jpg", "cat.jpg", "@cat")))


def test_images_are_known_by_their_suffix_and_letters_by_their_composed_form() -> None:
    assert is_image("a/b.JPEG") and is_image("x.jfif") and is_image("x.npy") and not is_image("a.heic")
    assert composed("cafe\u0301") == "caf\u00e9"
    assert by_suffix(["a.heic", "b.txt", "c.HEIC", "README"]) == {".heic": 2, "": 1, ".txt": 1}


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
