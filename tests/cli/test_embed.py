"""contrastive embed: the features of images, with their paths and labels."""

import csv
import importlib.util
import os
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import contrastive
from contrastive import Result, load_encoder
from contrastive.__main__ import main
from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from tests.helpers import TINY, compose_settings, write_files


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three images of two classes and sizes, one file that is none, and a note."""
    rng = np.random.default_rng(0)
    for name, side in (("cat/a.png", 20), ("cat/b.png", 16), ("dog/c.png", 31)):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)
    (tmp_path / "photos/dog/broken.jpg").write_bytes(b"no image")
    (tmp_path / "photos/notes.txt").write_text("of mine")
    return tmp_path / "photos"


def expected(folder: Path) -> torch.Tensor:
    encoder, transform = load_encoder("digits")
    with torch.inference_mode():
        return torch.cat([encoder(transform(str(folder / name))) for name in ("cat/a.png", "cat/b.png", "dog/c.png")])


def check(path: list[str], label: list[str], features: np.ndarray, folder: Path) -> None:
    assert path == [str(folder / name) for name in ("cat/a.png", "cat/b.png", "dog/c.png")]
    assert label == ["cat", "cat", "dog"]
    np.testing.assert_allclose(features, expected(folder).numpy(), atol=1e-5)


def test_a_folder_becomes_arrays_and_what_cannot_be_read_is_named(folder, tmp_path, capsys):
    assert main(["embed", "digits", str(folder), "-o", str(tmp_path / "f.npz")]) == 0
    found = np.load(tmp_path / "f.npz")
    check(found["path"].tolist(), found["label"].tolist(), found["features"], folder)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{tmp_path / 'f.npz'}: 3 images, 64 features each"
    assert said[1].startswith(f"left out: {folder / 'dog/broken.jpg'} (cannot identify image file")
    assert len(said) == 2


def test_tables_hold_the_same_and_one_that_is_embedded_is_never_overwritten(folder, tmp_path, capsys):
    for name in ["f.csv", *(["f.parquet"] if importlib.util.find_spec("pyarrow") else [])]:
        assert main(["embed", "digits", str(folder), "-o", str(tmp_path / name)]) == 0
        table = pd.read_csv(tmp_path / name) if name.endswith("csv") else pd.read_parquet(tmp_path / name)
        check(table["path"].tolist(), table["label"].tolist(), table.drop(columns=["path", "label"]).values, folder)
    before = (tmp_path / "f.csv").read_text()
    assert main(["embed", "digits", str(tmp_path / "f.csv"), "-o", str(tmp_path / "f.csv")]) == 2
    assert "try -o f-features.csv" in capsys.readouterr().err
    assert (tmp_path / "f.csv").read_text() == before


def test_shards_tables_and_single_images_are_read(folder, tmp_path):
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        tar.add(folder / "dog/c.png", "dog/c.png")
        tar.add(folder / "notes.txt", "notes.txt")
    with (folder / "list.csv").open("w", newline="") as file:
        rows = [("file", "label"), ("cat/a.png", "tabby"), ("cat/b.png", "tabby"), ("dog/c.png", "tom")]
        csv.writer(file).writerows(rows)
    places = [str(folder / "list.csv"), str(tmp_path / "0.tar"), str(folder / "dog/c.png")]
    assert main(["embed", "digits", *places, "-o", str(tmp_path / "f.npz")]) == 0
    found = np.load(tmp_path / "f.npz")
    assert found["label"].tolist() == ["tabby", "tabby", "tom", "dog", "dog"]
    assert found["path"].tolist()[3:] == [f"{tmp_path}/0.tar/dog/c.png", str(folder / "dog/c.png")]
    np.testing.assert_allclose(found["features"], expected(folder)[[0, 1, 2, 2, 2]], rtol=1e-3, atol=1e-3)


def test_a_tar_is_read_as_a_run_reads_it_and_what_is_left_out_of_a_folder_is_told(folder, tmp_path, capsys):
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for name, text in (("cls", "queen"), ("json", '{"label": "drone"}')):
            (tmp_path / f"x.{name}").write_text(text)
            tar.add(folder / "dog/c.png", f"shard0/{name}.png")
            tar.add(tmp_path / f"x.{name}", f"shard0/{name}.{name}")
    (folder / "linked").symlink_to(tmp_path)
    assert main(["embed", "digits", str(tmp_path / "0.tar"), str(folder), "-o", str(tmp_path / "f.npz")]) == 0
    assert np.load(tmp_path / "f.npz")["label"].tolist()[:2] == ["queen", "drone"]
    assert "left out: 1, a link to a folder: try a copy, or a link to each image (linked)" in capsys.readouterr().out


@pytest.mark.parametrize(("place", "inside"), [("a.png", "cat"), ("..", "cat/in")])
def test_a_folder_gives_its_name_where_the_path_does_not_say_it(folder, tmp_path, monkeypatch, place, inside):
    (folder / "cat/in").mkdir()
    monkeypatch.chdir(folder / inside)
    assert main(["embed", "digits", place, "-o", str(tmp_path / "f.npz")]) == 0
    assert set(np.load(tmp_path / "f.npz")["label"]) == {"cat"}


@pytest.mark.parametrize(
    ("place", "file", "sentence"),
    [
        ("photos", "f.txt", "must end in .npz, .csv, .parquet: try -o f.npz"),
        ("nowhere", "f.npz", "there is no folder and no file nowhere: try the path of a folder of images"),
        ("empty", "f.npz", "there are no images in empty: try contrastive look empty"),
        ("photos/dog/broken.jpg", "f.npz", "no image can be read, the first is photos/dog/broken.jpg"),
        ("photos/notes.csv", "f.npz", "has no column of image files: try a folder of images"),
        ("photos", "f.parquet", ".parquet needs pyarrow: try pip install pyarrow"),
    ],
)
def test_mistakes_end_in_what_to_type(folder, tmp_path, monkeypatch, capsys, place, file, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("contrastive.export.embed.find_spec", lambda name: None)
    (tmp_path / "empty").mkdir()
    (folder / "notes.csv").write_text("a,b\n1,2\n")
    assert main(["embed", "digits", place, "-o", file]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("f.*"))


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
def test_a_name_that_is_no_utf_8_is_written(folder, tmp_path):
    (folder / "cat/a.png").rename(folder / os.fsdecode(b"cat/caf\xe9.png"))
    assert main(["embed", "digits", str(folder), "-o", str(tmp_path / "f.csv")]) == 0
    assert f"{folder}/cat/caf\\xe9.png" in pd.read_csv(tmp_path / "f.csv").path.tolist()


def test_a_network_of_ones_own_lies_in_a_folder_that_is_named(folder, tmp_path, capsys):
    mine, f = tmp_path / "mine", str(tmp_path / "f.npz")
    code = """
from torch import nn
class Net(nn.Sequential):
    dim = 5
    def __init__(self):
        super().__init__(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 5))
"""
    write_files(mine, {"encoder/net_of_mine.yaml": "_target_: net_of_mine.Net\n", "net_of_mine.py": code})
    words = [word for word in TINY if not word.startswith("encoder")]
    run = contrastive.pretrain(
        *words, "encoder=net_of_mine", config_dir=mine, **{"hydra.run.dir": tmp_path / "run"}
    ).path
    assert main(["embed", str(run), str(folder), "-o", f, "-cd", str(mine)]) == 0
    assert np.load(f)["features"].shape == (3, 5)
    assert main(["export", str(run), "--pt2", "--huggingface", str(tmp_path / "hub"), "-cd", str(mine)]) == 0
    assert (run / "encoder.pt2").exists()
    assert 'load_encoder("model.safetensors", encoder=YOUR_NETWORK)' in (tmp_path / "hub/README.md").read_text()
    capsys.readouterr()
    assert main(["embed", str(run), str(folder), "-o", f]) == 2
    assert "try --config-dir FOLDER, that of net_of_mine.py" in capsys.readouterr().err


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    path = tmp_path_factory.mktemp("embed") / "run"
    run_experiment(compose_settings(*TINY), path)
    return Result(path)


def test_a_result_embeds_what_a_run_takes(result, folder):
    files = [str(folder / "cat/a.png"), Image.open(folder / "dog/c.png")]
    tensor = torch.randint(256, (5, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    last, (encoder, transform) = tensor.permute(0, 2, 3, 1).numpy(), result.encoder()
    for given, images in (
        (files, files), (tuple(files), files), (files[0], files[:1]), (tensor.numpy(), tensor), (last, tensor),
        (list(last), tensor), (tensor[0], tensor[:1]), (last[0], tensor[:1]),
    ):  # fmt: skip
        with torch.inference_mode():
            whole = encoder(transform(images))
        torch.testing.assert_close(result.embed(given, batch_size=2), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ((np.zeros((2, 8, 8, 3), np.uint8), np.zeros(2)), r"ndarray \(2, 8, 8, 3\): try .*torch\.from_numpy"),
        (np.zeros((2, 8, 8, 3)), r"images are float64 .*: try .* or \(x \* 255\)"),
        ([torch.zeros(3, 8, 8)], r"Tensor \(3, 8, 8\): try torch\.stack"),
    ],
    ids=["pair", "float array", "list of tensors"],
)
def test_what_a_result_cannot_embed_ends_in_what_to_type(result, images, sentence):
    with pytest.raises(ConfigError, match=sentence):
        result.embed(images)
