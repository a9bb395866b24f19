"""Image folders with a table in place of class folders."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError
from tests.helpers import load_image_folder

HEADER = "img_id,img_filename,y,split,place,place_filename\n"


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Waterbirds' layout: a folder for each species, metadata.csv, class y and place, split 0, 1, 2."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(60):
        species = tmp_path / f"{i % 3:03}.Species_{i % 3}"
        species.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (14, 14, 3), dtype=np.uint8)).save(species / f"{i}.png")
        split = 0 if i < 40 else 1 if i < 50 else 2
        lines.append(f"{i},{species.name}/{i}.png,{i % 2},{split},{i // 2 % 2},ocean\n")
    (tmp_path / "metadata.csv").write_text(HEADER + "".join(lines))
    return tmp_path


def test_splits_labels_and_biases_are_those_of_the_table(birds: Path) -> None:
    data = load_image_folder(birds, table="metadata.csv")
    assert (len(data.pretrain), len(data.probe_val), len(data.test)) == (40, 10, 10)
    assert data.probe_train.tolist() == list(range(40))  # validation images are their own
    assert (data.classes, data.biases) == (("0", "1"), ("0", "1"))
    assert data.pretrain.label.tolist() == [i % 2 for i in range(40)]
    assert data.test.bias is not None
    assert data.probe_val.bias is not None
    assert data.test.bias.tolist() == [i // 2 % 2 for i in range(50, 60)]
    assert data.probe_val.bias.tolist() == [i // 2 % 2 for i in range(40, 50)]
    assert fingerprint(load_image_folder(birds, table="metadata.csv", hold_out=True)) == fingerprint(data)


def test_columns_may_have_any_name_and_words_for_values(birds: Path) -> None:
    text = (birds / "metadata.csv").read_text().replace(HEADER, "n,file,kind,part,where,x\n")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    for row in rows:
        row[2], row[3] = ("land", "water")[int(row[2])], ("train", "train", "test")[int(row[3])]
    (birds / "words.csv").write_text("n,file,kind,part,where,x\n" + "\n".join(map(",".join, rows)))
    data = load_image_folder(
        birds, table="words.csv", columns={"path": "file", "label": "kind", "split": "part", "bias": None}
    )
    assert (data.classes, data.biases, data.pretrain.bias) == (("land", "water"), (), None)
    assert len(data.pretrain) == 50
    assert len(data.probe_val) == 4  # no validation split: a tenth of the training images of each class


def test_an_image_that_is_missing_is_named_and_left_out(birds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (birds / "000.Species_0/0.png").unlink()
    assert len(load_image_folder(birds, table="metadata.csv").pretrain) == 39
    assert "0.png" in capsys.readouterr().out


def test_a_short_line_is_named_and_a_class_may_be_small_beside_a_validation_split(birds: Path) -> None:
    lines = (birds / "metadata.csv").read_text().splitlines()
    (birds / "short.csv").write_text("\n".join([*lines, "60,000.Species_0/0.png"]))
    with pytest.raises(ConfigError, match=r"too few columns in line 62"):
        load_image_folder(birds, table="short.csv")
    rare = [line.replace(",0,0,", ",9,0,", 1) if line.startswith("0,") else line for line in lines]
    (birds / "rare.csv").write_text("\n".join(rare))
    assert load_image_folder(birds, table="rare.csv").classes == ("0", "1", "9")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nothing.csv"}, r"nothing\.csv cannot be read .* try dataset\.table"),
        ({"table": "metadata.csv", "columns": {"bias": "color"}}, r"no column color, its columns are img_id,"),
        ({"table": "metadata.csv", "columns": {"split": "img_id"}}, r"the split '3' in line 5: try 0, 1, 2"),
        ({"table": "metadata.csv", "columns": {"split": "y"}}, r"names no test images"),
        ({"table": "metadata.csv", "columns": {"lable": "y"}}, r"has path, split, label, bias and a name for each"),
        ({"table": "metadata.csv", "columns": {"label": None}}, r"has path, split, label, bias and a name for each"),
        ({"table": "metadata.csv", "bias_pattern": "(x)"}, r"try dataset\.unlabeled=null"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(birds: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_image_folder(birds, **options)
