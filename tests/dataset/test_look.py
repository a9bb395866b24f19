"""`contrastive look`: the report of a place and the command that trains on it."""

import shlex
from pathlib import Path

import pytest
from PIL import Image

from contrastive.cli.look import main
from contrastive.cli.look import parsed as parsed_words
from contrastive.cli.pack import main as pack
from contrastive.dataset.image_folder import image_folder
from contrastive.dataset.shards import shards
from tests.helpers import write_files, write_image_folder


def look(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_a_folder_is_reported_and_the_last_line_trains_on_it(tmp_path, capsys):
    folder = write_image_folder(tmp_path / "my bugs (1)")
    code, said = look(capsys, folder)
    assert code == 0
    assert "train  40 images, train/\ntest   8 images, test/\n2 classes: ant (24), bee (24)\n" in said
    assert "each image: 3 x 8 bits, the shorter side of 9 to 12 pixels" in said
    words = shlex.split(said.splitlines()[-1])
    assert words[:3] == ["python", "train.py", "dataset=image_folder"]
    assert words[3:] == [f"dataset.root={folder}", "dataset.size=12"]
    assert parsed_words(words[2:])["root"] == str(folder)
    assert look(capsys, "dataset=image_folder", f"dataset.root={folder}")[1] == said


def test_the_command_that_is_shown_can_be_typed(tmp_path, capsys):
    folder = write_image_folder(tmp_path / "bugs")
    rows = [f"{path.relative_to(folder)},{path.parent.name}\n" for path in sorted(folder.rglob("*.png"))]
    write_files(folder, {"lists/labels.csv": "file,kind\n" + "".join(rows)})
    said = look(capsys, folder / "lists/labels.csv", f"dataset.root={folder}")[1].splitlines()[-1]
    assert said.count("dataset.root=") == 1 and "dataset.table=lists/labels.csv" in said
    code, said = look(capsys, folder, "dataset.per_class=2")
    assert code == 0 and "\nbefore dataset.per_class\n" in said
    code, said = look(capsys, folder, "dataset.per_clas=3")
    assert code == 2 and "no setting dataset.per_clas" in said
    code, said = look(capsys, tmp_path / "nothing.zip")
    assert code == 2 and said.endswith("that is there: try a folder of images\n")


def copied(folder: Path, suffix: str) -> Path:
    """Four training images are test images, too, one of them under another class."""
    write_image_folder(folder)
    for i, name in {0: "ant", 1: "ant", 4: "bee", 3: "ant"}.items():
        with Image.open(folder / f"train/{'bee' if i == 3 else name}/00{i}.png") as picture:
            picture.save(folder / f"test/{name}/copy{i}{suffix}")
    return folder


COPIES = "4 of 12 test images are training images, too"


def test_images_that_are_there_twice_are_counted(tmp_path, capsys, monkeypatch):
    folder = copied(tmp_path / "bugs", ".png")
    told = f"{COPIES} (ant/copy0.png, ant/copy1.png, ant/copy3.png, ...); 1 image with more than one label"
    assert told in look(capsys, folder)[1]
    for _ in range(2):  # decoded, and from the cache
        assert told in str(image_folder(root=str(folder), size=8, cache=str(tmp_path / "cache")).found)
    monkeypatch.setattr("contrastive.cli.look.LOOKED_AT", 4)
    assert told in look(capsys, folder)[1]
    assert pack([str(folder), str(tmp_path / "packed")]) == 0
    found = str(shards(root=str(tmp_path / "packed"), size=8, cache=str(tmp_path / "c")).found)
    assert f"{COPIES}; 1 image with more than one label" in found


def test_a_dataset_of_ones_own_is_reported(tmp_path, monkeypatch, capsys):
    yaml = "# @package _global_\ndataset:\n  _target_: squares.squares\n  n: 16\n  hold_out: false\n"
    write_files(tmp_path / "mine", {"squares.py": SQUARES, "dataset/squares.yaml": yaml})
    monkeypatch.chdir(tmp_path)
    code, said = look(capsys, "dataset=squares", "dataset.n=8", "--config-dir", "mine", "-o", "look.html")
    assert code == 0
    assert said.startswith("train  1,438 images\ntest   359 images\n10 classes: 0 (178), ")
    assert "\neach image: 3 x 8 bits, 8 x 8 pix" in said
    assert (tmp_path / "look.html").stat().st_size > 2000
    assert f"python train.py --config-dir {tmp_path}/mine dataset=squares dataset.n=8\n" in said
    assert look(capsys, "dataset=squares")[0] == 2  # without the folder


SQUARES = """from contrastive.dataset.digits import digits
def squares(*, n, hold_out=False):
    return digits(size=n, hold_out=hold_out)
"""
