"""What names mean, and the report of what was found."""

import pytest

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
