"""Image folders with a table in place of class folders."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrastive.cli.look import guess_columns, typed_columns
from contrastive.dataset.folder.table import read_cells, read_table
from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError
from tests.helpers import load_image_folder, write_files

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
    assert data.test.bias.tolist() == [i // 2 % 2 for i in range(50, 60)]
    assert data.probe_val.bias.tolist() == [i // 2 % 2 for i in range(40, 50)]
    assert fingerprint(load_image_folder(birds, table="metadata.csv", hold_out=True)) == fingerprint(data)


def test_an_image_that_is_missing_is_named_and_left_out(birds: Path) -> None:
    (birds / "000.Species_0/0.png").unlink()
    data = load_image_folder(birds, table="metadata.csv")
    assert len(data.pretrain) == 39
    assert "left out: 1, named by metadata.csv and not there (000.Species_0/0.png)" in str(data.found)


def test_a_class_may_be_small_beside_a_validation_split(birds: Path) -> None:
    assert load_image_folder(edited(birds, y={2: "9"}), table="edited.csv").classes == ("0", "1", "9")


def edited(birds: Path, **cells: dict[int, str]) -> Path:
    """The table with other values in a column: {line: value}; the header is line 1."""
    header, *rows = (line.split(",") for line in (birds / "metadata.csv").read_text().splitlines())
    for column, values in cells.items():
        for line, value in values.items():
            rows[line - 2][header.index(column)] = value
    (birds / "edited.csv").write_text("\n".join(map(",".join, [header, *rows])))
    return birds


FIRST = "000.Species_0/0.png"
TWICE = r"0.*0\.png in two lines, of two splits, labels, biases or groups: try one line"


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ({}, {"table": "nothing.csv"}, r"nothing\.csv cannot be read .* try dataset\.table"),
        ({}, {"table": "folder.csv"}, r"folder\.csv cannot be read .*directory.*: try"),
        ({}, {"table": "empty.csv"}, "has no line"),
        ({}, {"table": "long.csv"}, "field larger than field limit"),
        ({}, {"table": "wide.csv"}, "too many columns in line 2: try quotes"),
        ({}, {"table": "short.csv"}, r"has no split \(split\) in line 62: try it without"),
        ({}, {"columns": {"bias": "color"}}, r"no column color, its columns are img_id,"),
        ({}, {"columns": {"split": "img_id"}}, r"the split '3' in line 5: try 0, 1, 2"),
        ({}, {"columns": {"split": "y"}}, r"class 1 has fewer than two labeled training images"),
        ({}, {"splits": {"1": None, "2": None}}, r"names no test images"),
        ({}, {"columns": {"lable": "y"}}, "has path, split, .* and a name for each"),
        ({}, {"columns": {"label": None}}, "has path, split, .* and a name for each"),
        ({}, {"unlabeled": "x"}, r"try dataset\.unlabeled=null"),
        ({"y": {3: "", 9: " "}}, {}, r"has no label \(y\) in lines 3, 9: try"),
        ({"place": dict.fromkeys(range(5, 14), "NaN")}, {}, r"no bias \(place\) in lines 5, 6, 7, 8, 9 and 4 more"),
        ({"split": {61: ""}}, {}, r"has no split \(split\) in line 61: try"),
        ({"img_filename": {60: FIRST}}, {}, TWICE),
        ({"img_filename": {60: "000.Species_0/0"}}, {}, TWICE),
        ({"img_filename": {4: FIRST}}, {}, TWICE),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_lines(birds, cells, options, message):
    (birds / "folder.csv").mkdir()
    whole, wide = (birds / "metadata.csv").read_text(), f"{HEADER}0,a,b.png,0,0,0,ocean\n"
    short, long = f"{whole}60,000.Species_0/0.png", f"{HEADER}0,a.png,0,0,0,{'x' * 140_000}\n"
    write_files(birds, {"short.csv": short, "empty.csv": "", "long.csv": long, "wide.csv": wide})
    with pytest.raises(ConfigError, match=message):
        load_image_folder(edited(birds, **cells), **{"table": "edited.csv", **options})


def test_test_images_of_a_class_that_no_training_image_has_are_counted(birds):
    data = load_image_folder(edited(birds, y={60: "heron", 61: "heron"}), table="edited.csv")
    assert "2 of 10 test images are of classes without training images: heron" in str(data.found)
    assert "without training images" not in str(load_image_folder(birds, table="metadata.csv").found)


def test_validation_rows_are_tested_on_where_there_are_no_test_rows(birds):
    rows = [line.split(",") for line in (birds / "metadata.csv").read_text().splitlines()[1:]]
    for row in rows:
        row[3] = ("train", "valid", "valid")[int(row[3])]
    (birds / "words.csv").write_text("a,b,c,d,e,f\n" + "\n".join(map(",".join, rows)))
    data = load_image_folder(birds, table="words.csv", columns={"path": "b", "split": "d", "label": "c", "bias": "e"})
    assert (len(data.pretrain), len(data.probe_val), len(data.test)) == (40, 4, 20)
    assert "test   20 images, rows of words.csv, those of val" in str(data.found)


def test_an_index_without_a_name_is_a_column_and_rows_that_are_left_out_need_no_label(birds):
    table = (birds / "metadata.csv").read_text().replace("img_id,", ",", 1)  # as pandas writes it
    (birds / "pandas.csv").write_text(table + f'"60",{FIRST},,3,,ocean\n')
    data = load_image_folder(birds, table="pandas.csv", splits={"3": None})
    assert (len(data.pretrain), len(data.probe_val), len(data.test)) == (40, 10, 10)


def test_the_classes_and_biases_are_shown(birds):
    folder = edited(birds, y={2: "01", 4: "01", 6: " 0"}, place={2: "Sea", 3: "sea"})
    data = load_image_folder(folder, table="edited.csv")
    said = str(data.found)
    assert data.classes == (" 0", "0", "01", "1")  # equal numbers by their spelling, the same in each process
    assert "4 classes:  0 (1), 0 (27), 01 (2), 1 (30)\n" in said
    assert "4 biases: 0 (28), 1 (30), Sea (1), sea (1)\n" in said


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,file,label,fold,background,x", "{path: file, split: fold, label: label, bias: background}"),
        ("a,b,c,set,e,f", "{path: b, split: set, label: c, bias: e}"),  # by what they hold
        ("a,img_filename,y,set,e,f", "{path: img_filename, split: set, label: y, bias: e}"),
        ("a,b,c,set,1st place,f", '{path: b, split: set, label: c, bias: "1st place"}'),
        ("a,b,c,d,e,f", "{path: b, split: null, label: c, bias: d}"),  # 0, 1 and 2 may be anything
        ("a,b,hospital,diagnosis,e,f", "{path: b, split: null, label: diagnosis, bias: hospital}"),
        ("a,b,Patient,dx,e,f", "{path: b, split: null, label: dx, bias: e, group: Patient}"),
        ("a,b,patient_sex,dx,e,f", "{path: b, split: null, label: dx, bias: patient_sex}"),
    ],
)
def test_columns_are_guessed_by_look(birds, composed, header, columns):
    (birds / "mine.csv").write_text((birds / "metadata.csv").read_text().replace(HEADER, f"{header}\n"))
    if header != "a,img_filename,y,set,e,f":
        with pytest.raises(ConfigError, match=r"has no column .*: try contrastive look .*mine\.csv"):
            load_image_folder(birds, table="mine.csv")
    names, rows = read_cells(birds / "mine.csv")
    word = typed_columns(guess_columns([row for _, row in rows], names, birds))
    assert word == f"'dataset.columns={columns}'"
    typed = composed("dataset=image_folder", "dataset.root=x", word.strip("'")).dataset["columns"]
    assert load_image_folder(birds, table="mine.csv", columns=typed).classes


@pytest.mark.parametrize("per_group", [1, 4, 7])
def test_no_group_is_on_both_sides_of_a_split_that_is_drawn(birds, per_group):
    edited(birds, img_id={i + 2: f"patient {i // per_group}" for i in range(60)})
    listed = read_table(birds, birds / "edited.csv", {"split": None, "group": "img_id"})
    sides = [{file.group for file in listed.splits[name].files} for name in ("train", "test")]
    assert not sides[0] & sides[1] and 8 <= len(listed.splits["test"].files) <= 16
    assert set(listed.splits["test"].label) == {0, 1}
    assert listed.places["test"].startswith("a fixed fifth of each class, chosen by img_id: ")


def test_groups_on_both_sides_of_splits_that_are_given_are_counted(birds):
    edited(birds, img_id={i + 2: f"p{i // 9}" for i in range(60)})
    notes = read_table(birds, birds / "edited.csv", {"group": "img_id"}).notes
    assert notes == ("1 group (img_id) of val are in train, too: p4",)


def test_a_class_of_one_group_is_trained_on(birds):
    edited(birds, img_id={i + 2: "one" if i % 2 else f"p{i}" for i in range(60)})
    listed = read_table(birds, birds / "edited.csv", {"split": None, "group": "img_id"})
    assert set(listed.splits["train"].label) == {0, 1} and set(listed.splits["test"].label) == {0}
