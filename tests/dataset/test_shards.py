"""Tar shards: what is read of them, of damaged ones too, in which order, and what `contrastive pack` writes."""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.__main__ import main
from contrastive.config.identity import dataset_name
from contrastive.dataset.folder.decode import decode
from contrastive.dataset.image_folder import listed_images
from contrastive.dataset.shard.index import index_shards
from contrastive.dataset.shard.order import Order
from contrastive.dataset.shard.pack import pack
from contrastive.dataset.shard.sample import Fields
from contrastive.dataset.shard.tar import samples
from contrastive.dataset.shards import expand, shards
from contrastive.dataset.splits import channel_stats, fingerprint
from contrastive.errors import ConfigError
from contrastive.testing import check_dataset
from contrastive.training.loader import Loader
from contrastive.types import Split
from tests.dataset.data import RECIPE, contents, everything, load_shards, picture, ran, values, write_shards, write_tar
from tests.dataset.test_dataset_table import birds as birds
from tests.dataset.test_dataset_table import edited
from tests.helpers import load_image_folder, logged_lines, started, wait_for, write_image_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_shards(tmp_path / "tars")


def test_images_and_labels_are_those_of_the_shards(folder):
    data = load_shards(folder)
    check_dataset(data)
    seen = values(data.pretrain)
    assert data.pretrain.label.tolist() == [value % 4 for value in seen]
    assert sorted(seen + values(data.test)) == list(range(60)) and len(data.test) == 12
    some = torch.tensor([40, 2, 2, 17])
    assert data.pretrain.image[some][:, 0, 0, 0].tolist() == [seen[i] for i in some]  # any order, and twice
    assert values(data.pretrain.select(some).select(torch.tensor([3, 0]))) == [seen[17], seen[40]]
    assert data.mean == channel_stats(everything(data.pretrain.image))[0]
    own = load_shards(folder, root=f"{folder}/{{000..001}}.tar", test=f"{folder}/002.tar")
    assert (len(own.pretrain), len(own.test)) == (40, 20)


def test_test_images_have_labels(tmp_path):
    files = {f"{row:05}.png": picture(row) for row in range(80)}
    files |= {f"{row:05}.cls": b"%d" % (row % 4) for row in range(0, 80, 2)}
    write_tar(tmp_path / "000.tar", dict(sorted(files.items())))
    data = load_shards(tmp_path)
    assert len(data.test) and (data.test.label >= 0).all() and (data.pretrain.label < 0).sum() == 40
    data = load_shards(write_shards(tmp_path / "tars"), test=str(tmp_path / "000.tar"))
    assert len(data.test) == 40 and (data.test.label >= 0).all()
    plain = write_tar(tmp_path / "plain.tar", {f"{row:05}.png": picture(row) for row in range(20)})
    with pytest.raises(ConfigError, match=r"plain\.tar has no labels: try without dataset\.test"):
        load_shards(tmp_path / "tars", test=str(plain))


def test_a_shard_is_of_one_split(folder):
    with pytest.raises(ConfigError, match=r"002\.tar is a shard of train and of test: try a dataset\.root without it"):
        load_shards(folder, test=f"{folder}/002.tar")


def test_a_second_start_reads_no_shard(folder, monkeypatch):
    first = load_shards(folder)
    monkeypatch.setattr("contrastive.dataset.shard.index.samples", None)  # a call would fail
    assert fingerprint(load_shards(folder)) == fingerprint(first)
    moved = shutil.copytree(folder, folder.parent / "copy")
    with pytest.raises(TypeError):  # another folder has other indices
        load_shards(moved, cache=str(folder / "cache"))


def test_the_index_is_built_again_where_it_is_not_whole(folder, tmp_path):
    first = load_shards(folder)
    for path in (folder / "cache").glob("001-*.npy"):
        path.write_bytes(path.read_bytes()[:-10])
    for path in (folder / "cache").glob("002-*.json"):
        path.unlink()  # what a kill leaves
    assert fingerprint(load_shards(folder)) == fingerprint(first)


def test_those_who_index_at_once_share_the_work(folder, monkeypatch):
    """Threads stand for processes: a lock is held by who opened it."""
    built = []

    def slowly(shard: Path):
        built.append(shard)
        time.sleep(0.02)
        return samples(shard)

    monkeypatch.setattr("contrastive.dataset.shard.index.samples", slowly)
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(index_shards, expand(str(folder)), folder / "cache", Fields()) for _ in range(3)]
        found = [[index.facts["digest"] for index in job.result()] for job in jobs]
    assert sorted(built) == expand(str(folder))  # each once
    assert found[0] == found[1] == found[2]


def test_a_truncated_or_compressed_shard_is_refused_with_its_name(folder):
    whole = (folder / "001.tar").read_bytes()
    end = len(whole.rstrip(b"\0"))
    for cut in (0, 100, 512 + 20, 5000, end - 10, end):
        (folder / "001.tar").write_bytes(whole[:cut])
        with pytest.raises(ConfigError, match=r"001\.tar (is cut|is compressed).*(try|copying)"):
            load_shards(folder)
    damaged = bytearray(whole)
    damaged[10 * 2048] ^= 1  # in a header
    (folder / "001.tar").write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"001\.tar is cut, or has a damaged header, at byte 20480"):
        load_shards(folder)
    subprocess.run(["gzip", "001.tar"], cwd=folder, check=True)
    (folder / "001.tar.gz").rename(folder / "001.tar")
    with pytest.raises(ConfigError, match=r"001\.tar is compressed, cut or damaged in its first file .*: try gunzip"):
        load_shards(folder)


def test_a_damaged_image_is_found_by_its_bytes_and_named(folder):
    load_shards(folder)
    path = folder / "001.tar"
    raw, before = bytearray(path.read_bytes()), path.stat()
    offset, length = dict(samples(path))["00033"]["png"]
    raw[offset + length // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ConfigError, match=r"00033\.png in .*/001\.tar, byte \d+, is damaged, .*: try copying it again"):
        load_shards(folder)  # it is among the images that the statistics are of


def test_what_is_no_image_is_left_out_and_reported(folder, monkeypatch):
    half = picture(9, "jpeg")[:-40]
    files = {
        "x.cls": b"1", "y.png": b"no image", "y.cls": b"2", "z.png": picture(7), "z.cls": b"3", "w.jpg": half,
        "IMG_2020.01.jpg": picture(1), "IMG_2020.02.jpg": picture(1),
    }  # fmt: skip
    write_tar(folder / "003.tar", files)
    first = load_shards(folder)
    monkeypatch.setattr("contrastive.dataset.shard.index.samples", None)  # a second start reads no shard
    for data in (first, load_shards(folder)):
        assert len(data.pretrain) + len(data.test) == 61
        assert data.found.left_out == {
            "cannot be read": [
                "x in 003.tar: no file of its key, which ends at the first dot, is an image by its suffix (cls)",
                "y in 003.tar: cannot identify image file",
                f"w in 003.tar: {decode(half, 8)}",
                "IMG_2020 in 003.tar: no file of its key, which ends at the first dot, is an image by its suffix "
                "(01.jpg, 02.jpg)",
            ],
        }  # fmt: skip
        classes = {str(i): n for i, n in enumerate(torch.bincount(data.pretrain.label).tolist())}
        assert data.found.splits["train"] == classes
        assert data.found.places == {
            "train": str(folder),
            "test": "a fixed fifth of each class, chosen by their places: 12 of 61 images",
        }
        assert data.found.notes == ()


def test_labels_of_a_part_alone(folder):
    data = load_shards(folder, labeled=16)
    known = data.pretrain.label[data.pretrain.label >= 0]
    assert len(data.pretrain) == 48 and 12 <= len(known) <= 20
    assert set(known.tolist()) == {0, 1, 2, 3}
    assert len(data.probe_train) + len(data.probe_val) == len(known)
    with pytest.raises(ConfigError, match="fewer than two labeled training images, too few to hold one out"):
        load_shards(folder, labeled=4)


def test_an_image_that_is_as_it_was_indexed_is_not_called_damaged(tmp_path):
    source = write_image_folder(tmp_path / "insects")
    Image.new("RGB", (1, 9000)).save(source / "train/bee/005.png")
    assert main(["pack", str(source), str(tmp_path / "S")]) == 0
    assert shards(root=str(tmp_path / "S"), size=32).found.left_out == {}
    with pytest.raises(ConfigError, match=r"\d+\.png \(bee/005\.png\) in .*, byte \d+, is as it was .* decoded here"):
        shards(root=str(tmp_path / "S"), size=224)


def test_a_shard_that_is_written_again_with_the_same_size_is_indexed_again(folder):
    before = load_shards(folder)
    files = {f"{i:05}.{s}": c for i in range(20) for s, c in (("png", picture(i)), ("cls", b"0"))}
    write_tar(folder / "000.tar", files)
    after = load_shards(folder)
    assert fingerprint(after) != fingerprint(before)
    assert after.found.splits["train"]["0"] > before.found.splits["train"]["0"]


def test_the_name_of_a_split_is_that_of_the_folder_above(folder):
    for root in ("S/train", "S/Train/{000..099}.tar", "S", "S/*.tar"):
        assert dataset_name("shards", {"name": None, "root": root}) == "shards-S"
    inner = shutil.copytree(folder, folder / "inner/train")
    assert load_shards(inner).facts["dataset_name"] == "inner"
    with pytest.raises(ConfigError, match=r"there is no shard .*/\*\.tar: try dataset\.root=.*/deep/part$"):
        load_shards(shutil.copytree(inner, folder / "deep/part").parent)


def test_pack_writes_shards_that_are_the_folder(tmp_path, capsys):
    source = write_image_folder(tmp_path / "insects")
    broken = source / "train/bee/005.png"
    broken.write_bytes(broken.read_bytes()[:-60])  # behind its header
    why, dest = decode(broken.read_bytes(), 8), tmp_path / "packed"
    assert main(["pack", str(source), str(dest), "--per-shard", "16"]) == 0
    said = capsys.readouterr().out
    assert f"{dest}/train: 39 images, 3 shards" in said
    assert f"left out: 1, cannot be read, in {dest}/left_out.txt ({broken}: {why})" in said
    assert (dest / "left_out.txt").read_text() == f"{broken}: {why}\n"
    assert (dest / "classes.txt").read_text() == "ant\nbee\n"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dest, check=True)
    packed = shards(root=str(dest), size=12, cache=str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()  # the indices lie beside the shards
    assert packed.found.places == {"train": f"{dest}/train", "test": f"{dest}/test"}
    assert list(packed.found.left_out.values()) == [[f"bee/005.png in 00000.tar: {why}"]]
    folder = load_image_folder(source)
    for mine, theirs in ((packed.pretrain, folder.pretrain), (packed.test, folder.test)):
        assert contents(mine) == contents(theirs)
    assert int((packed.pretrain.label.diff() != 0).sum()) > 5  # shuffled: of 40 sorted rows it is 1


def test_pack_goes_on_where_it_was_stopped_and_refuses_another_source(tmp_path, capsys):
    source, dest = write_image_folder(tmp_path / "insects"), tmp_path / "packed"
    words = ["pack", str(source), str(dest), "--per-shard", "16"]
    assert main(words) == 0
    before = {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()}
    first, second = dest / "train/00000.tar", dest / "train/00001.tar"
    kept = first.stat().st_mtime_ns
    second.unlink()
    (dest / "train/.00001.tar.part").touch()  # of a pack that was killed
    assert main(words) == 0
    assert {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()} == before
    assert first.stat().st_mtime_ns == kept
    (source / "train/ant/000.png").write_bytes(picture(3))
    assert main(words) == 2
    assert f"{dest} holds shards of other files: try another folder, or rm -r" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["a new class", "one split less"])
def test_pack_refuses_shards_of_other_classes_or_splits_though_the_changed_split_is_removed(tmp_path, capsys, change):
    """The test shards would keep the numbers that the classes had before, or a split that is no more."""
    source, dest = write_image_folder(tmp_path / "insects"), tmp_path / "packed"
    shutil.copytree(source / "test", source / "val")
    assert main(["pack", str(source), str(dest)]) == 0
    if change == "a new class":
        shutil.copytree(source / "train/bee", source / "train/aphid")
        shutil.rmtree(dest / "train")
    else:
        shutil.rmtree(source / "val")
    assert main(["pack", str(source), str(dest)]) == 2
    assert "holds shards of other files" in capsys.readouterr().err
    shutil.rmtree(dest)
    assert main(["pack", str(source), str(dest)]) == 0


def test_names_of_shards_tell_their_splits(tmp_path):
    folder = tmp_path / "W"
    for name, keys in (("train-0", 4), ("train-1", 4), ("validation-0", 3)):
        write_tar(folder / f"some-{name}.tar", {f"{name}{i}.png": picture(i) for i in range(keys)})
    data = load_shards(folder)
    assert (len(data.pretrain), len(data.test)) == (8, 3)


def test_pack_keeps_labels_and_biases_of_a_table(birds, tmp_path, capsys):
    dest = tmp_path / "packed"
    words = ["pack", str(birds), str(dest), "--per-shard", "16"]
    assert main([*words, "dataset.table=metadata.csv"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    typed = dict(word.split("=") for word in said.split() if word.startswith("dataset."))
    assert typed == {"dataset.root": str(dest), "dataset.bias": "bias", "dataset.size": "14"}
    packed = shards(root=str(dest), bias="bias", size=12, cache=str(tmp_path / "cache"))
    assert set(packed.found.places) == {"train", "val", "test"}
    assert not (tmp_path / "cache").exists()  # the indices beside the shards have the biases
    folder = load_image_folder(birds, table="metadata.csv")
    for name in ("pretrain", "probe_val", "test"):
        assert contents(getattr(packed, name)) == contents(getattr(folder, name))
    assert len(packed.probe_train) == len(folder.probe_train)
    assert (dest / "biases.txt").read_text() == "".join(f"{name}\n" for name in folder.biases)
    assert (packed.classes, packed.biases) == (folder.classes, folder.biases)
    assert packed.found.splits == folder.found.splits
    (told,) = (note for note in folder.found.notes if "biases:" in note)
    assert told in packed.found.notes
    edited(birds, y={3: "0"})
    assert main([*words, "dataset.table=edited.csv"]) == 2  # another label
    assert "holds shards of other files" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_killed_and_continued_by_other_numbers_of_processes_is_the_undisturbed_one(tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    pack(listed_images(write_image_folder(tmp_path / "insects", n=90)), tmp_path / "shards", per_shard=40)
    words = [
        *RECIPE, "dataset=shards", f"dataset.root={tmp_path}/shards", "dataset.size=12", "batch_size=12",
        "epochs=4", "checkpoint_every_minutes=0.0001", "noise_frac=0.2",
    ]  # fmt: skip
    ran(*words, f"hydra.run.dir={whole}", cwd=tmp_path)
    for n, after in ((1, 4), (2, 20), (2, 32)):
        process = started(*words, f"hydra.run.dir={run}", f"devices={n}", cwd=tmp_path, start_new_session=True)
        wait_for(run / "checkpoints/last.pt", process)
        while (run / "metrics.jsonl").read_text().count("train/loss") < after:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert "resuming after" in ran(*words, f"hydra.run.dir={run}", cwd=tmp_path)
    mine, theirs = (
        [(line["step"], line["train/loss"]) for line in logged_lines(path) if "train/loss" in line]
        for path in (run, whole)
    )
    assert [step for step, _ in mine] == [step for step, _ in theirs] and len(mine) == 4 * (180 // 12)
    assert [loss for _, loss in mine] == pytest.approx([loss for _, loss in theirs], rel=1e-3)


def test_a_permutation_is_a_bijection_of_every_n():
    for n in (*range(1, 1501), 4095, 4096, 4097, 65_537):
        assert np.array_equal(np.sort(Order(n, "key").rows(0, n).numpy()), np.arange(n)), n


def test_neighbors_are_not_neighbors_in_the_order():
    """Of uniform draws, the mean distance of neighbors is n / 3 and the correlation of row and place 0."""
    n = 100_003
    rows = Order(n, 7).rows(0, n).double().numpy()
    assert np.abs(np.diff(rows)).mean() / n == pytest.approx(1 / 3, abs=0.005)
    assert abs(np.corrcoef(np.arange(n), rows)[0, 1]) < 0.02
    assert np.histogram(rows[: n // 10], 10)[0] == pytest.approx([n / 100] * 10, rel=0.15)


def test_the_order_depends_on_every_part_of_its_key_and_is_pinned():
    """A run goes on with the order that it began with: another digest needs another `ORDER`."""
    assert len({tuple(Order(50, *key).rows(0, 50).tolist()) for key in [(0, 1), (1, 1), (0, 2), (0,)]}) == 4
    rows = Order(1000, 0, "order", 1).rows(0, 1000)
    assert hashlib.sha256(rows.numpy().tobytes()).hexdigest()[:16] == "623fd2ec2e3d29f0"


def ordered(keyed: bool) -> Split:
    image = torch.arange(100, dtype=torch.uint8)[:, None, None, None].expand(100, 3, 8, 8).contiguous()
    return Split(image, torch.arange(100) % 4, keyed=keyed)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("sampler", ["uniform", "class_balanced"])
def test_an_epoch_from_its_middle_is_the_rest_of_the_whole(keyed, noise, sampler):
    loader = Loader(
        ordered(keyed), batch_size=20, seed=0, sampler=sampler, noise_frac=noise, blur_frac=noise,
        second_batch_size=8,
    )  # fmt: skip
    whole = list(loader.epoch(1))
    for start in range(len(loader)):
        for one, other in zip(loader.epoch(1, start=start), whole[start:], strict=True):
            assert torch.equal(one.index, other.index) and torch.equal(one.second.index, other.second.index)
            assert (one.view1_source is None) == (noise == 0)
            assert noise == 0 or torch.equal(one.view1_source, other.view1_source)
    assert torch.equal(loader.indices(1, 2), whole[2].index)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_second_pass_within_an_epoch_has_an_order_of_its_own(keyed):
    loader = Loader(ordered(keyed), batch_size=20, seed=0, second_batch_size=10)
    rows = torch.cat([batch.index for batch in loader.epoch(0)])
    first, second = rows[:100], rows[100:]
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(100))
    assert not torch.equal(first, second)
