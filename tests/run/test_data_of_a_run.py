"""A finished run is shown only if its data are these: the files lie as they did, or their content is the same."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import contrastive
from contrastive.errors import ConfigError
from contrastive.experiment.summary import already_done
from contrastive.listing.places import places
from contrastive.run.files import read_config
from contrastive.run.run import done_already
from tests.helpers import CONTIGUOUS, ROOT, program, python, write_finished, write_image_folder

NODE = {"_target_": "contrastive.dataset.image_folder.image_folder", "name": None, "cache": "data/cache"}
FOLDER = [
    "dataset=image_folder", "dataset.size=8", "encoder=simple_convnet", "encoder.width=2", "encoder.kernel_size=3",
    "epochs=0", "batch_size=4", "device=cpu", "evaluator=[knn]", "evaluator.knn.k=3", "augmentation=none", CONTIGUOUS,
]  # fmt: skip


def here(root: Path, **more: str) -> dict:
    return places({**NODE, "root": str(root), **more})


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_image_folder(tmp_path / "im", n=4)


def edit(images: Path) -> None:
    file = images / "train/ant/000.png"
    times = file.stat()
    file.write_bytes(bytes(reversed(file.read_bytes())))  # as large as before
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 1))


@pytest.mark.parametrize(
    "change",
    [
        edit,
        lambda images: (images / "train/bee/deep").mkdir() or (images / "train/bee/deep/9.png").touch(),
        lambda images: (images / "test/ant/000.png").unlink(),
        lambda images: (images / "train/ant/000.png").rename(images / "train/ant/zero.png"),
        lambda images: (images / "labels.csv").write_text("path,split\n"),
    ],
)
def test_a_listing_tells_what_changed_below_a_folder(images, change):
    before = here(images)
    assert here(images) == before
    change(images)
    assert here(images)["root"]["path"] == before["root"]["path"]
    assert here(images) != before


def test_a_listing_leaves_out_what_is_no_data(images):
    before = here(images)
    (images / ".DS_Store").touch()
    (images / ".ipynb_checkpoints").mkdir()
    (images / ".ipynb_checkpoints/000.png").touch()
    (images / "cache").mkdir()
    (images / "cache/decoded.images").touch()
    assert here(images, cache=str(images / "cache")) == before


def test_a_listing_follows_links_and_ends_in_a_circle(images, tmp_path):
    far = tmp_path / "far"
    shutil.move(images / "train/ant", far)
    (images / "train/ant").symlink_to(far)
    (images / "train/circle").symlink_to(images)
    (images / "train/nowhere").symlink_to(tmp_path / "nowhere")
    before = here(images)
    (far / "000.png").unlink()
    assert here(images) != before
    (tmp_path / "link").symlink_to(images)
    assert here(tmp_path / "link") == here(images)


def test_a_table_files_patterns_and_urls_have_places(tmp_path):
    for name in ("x.npy", "00.tar", "01.tar", "t.csv"):
        (tmp_path / name).write_text(name)
    (tmp_path / "im").mkdir()
    assert here(tmp_path / "im", table="../t.csv")["table"]["path"] == str(tmp_path / "t.csv")
    arrays = places({**NODE, "images": str(tmp_path / "x.npy"), "labels": None})
    assert list(arrays) == ["images"] and arrays["images"]["listing"]
    pattern = here(tmp_path / "{00..01}.tar")
    (tmp_path / "01.tar").write_text("longer than before")
    assert pattern["root"]["listing"] and here(tmp_path / "{00..01}.tar") != pattern
    assert here(tmp_path / "none")["root"] == {"path": str(tmp_path / "none"), "listing": None}
    own = {"_target_": "mine.spectra", "path": str(tmp_path / "x.npy"), "folder": str(tmp_path), "split": "train"}
    assert set(places(own)) == {"path", "folder"}


def test_a_finished_run_is_shown_where_its_files_lie_as_they_did_or_are_gone(images, tmp_path):
    """Without them being read; where they are gone it says so."""
    config = {"seed": 0, "dataset": {**NODE, "root": str(images)}}
    path = write_finished(tmp_path / "run", config=config, environment={"files": here(images)})
    config = read_config(path)

    def says_gone(root: Path) -> bool | None:
        found = done_already(path, {**config, "dataset": {**NODE, "root": str(root)}})
        return None if found is None else "its data are not compared" in already_done(found)

    assert says_gone(images) is False
    shutil.copytree(images, tmp_path / "copy/im")
    assert says_gone(tmp_path / "copy/im") is None  # equal or not: what they hold decides
    edit(images)
    assert says_gone(images) is None
    shutil.rmtree(images)
    assert says_gone(images) is True
    assert says_gone(tmp_path / "typo/im") is None


GIVEN = [word for word in FOLDER if not word.startswith("dataset")]


@pytest.mark.slow
@pytest.mark.smoke
def test_data_given_in_python_are_compared_by_content(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x, y = np.random.default_rng(0).integers(0, 255, (30, 8, 8), np.uint8), np.arange(30) % 3
    first = contrastive.pretrain(*GIVEN, data=(x, y))
    capsys.readouterr()
    assert contrastive.pretrain(*GIVEN, data=(x.copy(), y.copy())).test == first.test
    assert "is done already" in capsys.readouterr().out
    for other in ((255 - x, y), (x, y[::-1]), (x[:-3], y[:-3])):
        with pytest.raises(ConfigError, match=r"other data \(from Python\) than now \(from Python\): try dataset"):
            contrastive.pretrain(*GIVEN, data=other)
    assert "arrays-b" in str(contrastive.pretrain(*GIVEN, data=(255 - x, y), **{"dataset.name": "b"}).path)


@pytest.mark.slow
def test_a_finished_run_is_shown_without_torch(images, tmp_path):
    assert program(*FOLDER, "dataset.root=im", cwd=tmp_path).returncode == 0
    done = python("-X", "importtime", str(ROOT / "train.py"), *FOLDER, "dataset.root=im", cwd=tmp_path)
    assert "is done already" in done.stdout and "contrastive.run.run" in done.stderr
    assert " torch\n" not in done.stderr
