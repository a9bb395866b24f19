"""Labels and biases of shards are values: the numbers and words that occur are the classes."""

import json
from pathlib import Path

import pytest

from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError
from tests.dataset.data import everything, load_shards, picture, values, write_tar


def write(folder: Path, labels: list, *, suffix: str = "cls", shards: int = 2, n: int = 24, name: str = "{i:03}"):
    """n images in two shards with these labels in turn, in key.cls or in a field of key.json."""
    for shard in range(shards):
        files = {}
        for i in range(shard, n, shards):
            label = labels[i % len(labels)]
            key = name.format(i=i, label=label)
            files[f"{key}.png"] = picture(i)
            content = str(label) if suffix == "cls" else json.dumps({"label": label, "caption": "x"})
            if suffix is not None and label is not None:
                files[f"{key}.{suffix}"] = content.encode()
        write_tar(folder / f"{shard}.tar", files)
    return folder


@pytest.mark.parametrize("suffix", ["cls", "json"])
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3, 7], ("3", "7")),
        ([1, 2, 3], ("1", "2", "3")),
        ([-5, 1], ("-5", "1")),
        ([0, 3_000_000_000], ("0", "3000000000")),
        (["n01440764", "cat"], ("cat", "n01440764")),
        (["1_0", "10"], ("10", "1_0")),
        ([2.0, "3"], ("2", "3")),
        ([10, 9], ("9", "10")),
    ],
    ids=str,
)
def test_the_values_that_occur_are_the_classes(tmp_path, labels, classes, suffix):
    data = load_shards(write(tmp_path, labels, suffix=suffix))
    assert data.classes == classes
    named = [str(int(label) if isinstance(label, float) else label) for label in labels]
    for split in (data.pretrain, data.test):
        assert [classes[label] for label in split.label.tolist()] == [named[i % len(named)] for i in values(split)]


@pytest.mark.parametrize("label", [3.7, True, "", "3.7", [1], {"a": 1}, float("nan"), float("inf")], ids=repr)
def test_a_label_that_is_no_whole_number_and_no_word_is_refused(tmp_path, label):
    with pytest.raises(ConfigError, match=r"\d\.tar has no whole number or word as label or bias of 00\d \(it is "):
        load_shards(write(tmp_path, [label], suffix="json"))


def test_other_labels_are_other_data(tmp_path):
    folders = [write(tmp_path / f"{labels}", labels) for labels in ([3, 7], [1, 2], [2, 1], [1, 2])]
    assert len({fingerprint(load_shards(folder)) for folder in folders}) == 3


def test_images_without_a_label_are_counted_and_train(tmp_path):
    data = load_shards(write(tmp_path, [None, 4, -1, 5]))
    assert data.classes == ("4", "5") and len(data.pretrain) + len(data.test) == 24
    assert sum(split.get("", 0) for split in data.found.splits.values()) == 12


def test_a_field_that_no_image_has_is_refused_with_those_that_there_are(tmp_path):
    folder = write(tmp_path, [0, 1], suffix="json")
    plain = write(tmp_path / "plain", [0, 1])
    for place, options, said in [
        (folder, {"label": "lable"}, r"no image has the field lable .*: try dataset\.label=label, one of caption, la"),
        (folder, {"bias": "captions"}, r"\d\.tar has no captions for 00\d: try dataset\.bias=caption, one of caption"),
        (plain, {"label": "lable"}, r"no image has the field lable in its key\.json: try dataset\.label=label$"),
    ]:
        with pytest.raises(ConfigError, match=said):
            load_shards(place, **options)
    assert load_shards(folder, label="caption").classes == ("x",)


def test_a_field_or_the_folder_that_is_typed_is_the_label(tmp_path):
    files = {}
    for i in range(12):
        files |= {f"{i}.png": picture(i), f"{i}.cls": b"0", f"{i}.json": json.dumps({"fine": i % 3}).encode()}
    both = write_tar(tmp_path / "both/a.tar", files).parent
    data = load_shards(both)
    assert data.classes == ("0",) and data.found.notes == ()
    assert load_shards(both, label="fine").classes == ("0", "1", "2")
    folder = write(tmp_path / "folders", ["cat", "dog"], suffix=None, name="train/{label}/{i}")
    data = load_shards(folder)
    assert data.classes == ()
    assert data.found.notes == ("no image has a label; dataset.label=FIELD takes one of folder",)
    data = load_shards(folder, label="folder")
    assert data.classes == ("cat", "dog")


def test_numbers_are_named_by_a_file_beside_the_shards_if_it_has_a_line_for_each(tmp_path):
    folder = write(tmp_path / "S/train", [0, 2])
    hash_of_data = fingerprint(load_shards(folder))
    (tmp_path / "S/classes.txt").write_text("cat\ndog\nbird\n")
    assert load_shards(folder).classes == ("cat", "bird") and fingerprint(load_shards(folder)) == hash_of_data
    assert load_shards(folder).found.notes == ()
    (folder / "classes.txt").write_text("crane\ncrane\ncrane\n")
    assert load_shards(folder).classes == ("crane 0", "crane 2")
    (folder / "classes.txt").write_text("cat\ndog\n")  # too few: labels from 1, or of another set
    assert load_shards(folder).classes == ("0", "2")


def test_two_images_of_a_key_are_refused_until_one_is_chosen(tmp_path):
    files = {}
    for i in range(12):
        files |= {f"{i}.png": picture(200), f"{i}.jpg": picture(i, "jpeg"), f"{i}.npy": b"x", f"{i}.seg.png": b"x"}
    folder = write_tar(tmp_path / "a.tar", files).parent
    with pytest.raises(ConfigError, match=r"a\.tar has 2 images with the key 0, .* first dot .* dataset\.image=jpg"):
        load_shards(folder)
    masks, pictures = (load_shards(folder, image=suffix) for suffix in (".PNG", "jpg"))
    assert set(everything(masks.pretrain.image).flatten().tolist()) == {200}
    assert everything(pictures.pretrain.image).max() < 50
    with pytest.raises(ConfigError, match="has no image that can be read"):
        load_shards(folder, image="webp")
    dotted = {f"IMG_{i}.01.00.jpg": picture(i, "jpeg") for i in range(4)}
    with pytest.raises(ConfigError, match=r"IMG_0: .* first dot, .* \(01\.00\.jpg\)\): try names with a single"):
        load_shards(write_tar(tmp_path / "dotted/a.tar", dotted).parent)
