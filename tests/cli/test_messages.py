"""Errors become one sentence that ends in what to type, through the whole program in this process."""

import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrastive.config.messages import is_out_of_memory, user_message
from tests.cli.program import DRY, SMALL, call
from tests.helpers import write_files, write_image_folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [pytest.param("a: [", marks=pytest.mark.smoke), pytest.param("_target_: my.Nothing", marks=pytest.mark.smoke),
     "", "a: &x [*x]", "- 1", "temperature: 1", 'defaults: ["???"]',
     '{_target_: contrastive.loss.nt_xent.NTXent, _args_: "\\e[31m \\x1e"}'],
)  # fmt: skip
def test_broken_user_yaml_is_one_sentence(tmp_path, content):
    write_files(tmp_path, {"mine/loss/odd.yaml": content})
    code, err = call([*DRY, "--config-dir", "mine", "loss=odd"], tmp_path)
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1
    assert "\x1b" not in err


@pytest.mark.smoke
def test_a_folder_of_odd_files_trains_on_the_sound_ones(tmp_path, capfd):
    """Pipes, devices, folders, links that lead nowhere or to themselves, names that are no text: named and left out."""
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        for name in ("an ant", "a,bee ü", os.fsdecode(b"wasp \xff")):
            folder = tmp_path / "images" / part / name
            folder.mkdir(parents=True)
            for i in range(4):
                Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    folder = tmp_path / "images/train/an ant"
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    (folder / "dangling.png").symlink_to("/no/such/file")
    (folder / "loop.png").symlink_to("loop.png")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.png")).write_bytes(b"no image")
    assert stat.S_ISFIFO((folder / "pipe.png").stat().st_mode)
    words = [*SMALL, "dataset=image_folder", "dataset.root=images", "dataset.cache=cache", "batch_size=4"]
    code, err = call([*words, "evaluator=[knn]", "hydra.run.dir=run"], tmp_path)
    assert code == 0, err
    assert (tmp_path / "run/result.json").exists()


@pytest.mark.slow
def test_cache_that_cannot_be_written_names_its_setting(tmp_path):
    folder = write_image_folder(tmp_path / "images")
    (tmp_path / "full").write_text("a file, where the cache belongs")
    words = ["dataset=image_folder", f"dataset.root={folder}", "data_root=full"]
    code, err = call([*SMALL, *words, "hydra.run.dir=run"], tmp_path)
    assert code == 2, err
    assert "not a directory: mend that and run the same command again, or try data_root=PATH in another place" in err


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "NCCL error in: NCCLUtils.hpp:268, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
    ],
)
def test_memory_of_the_libraries_of_a_gpu_is_memory_of_the_gpu(text):
    error = RuntimeError(text)
    assert is_out_of_memory(error)
    assert (user_message(error) or "").startswith("too little memory (")
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


@pytest.mark.parametrize(
    ("source", "exit_code", "said"),
    [
        ("def load(root, *, size=8, hold_out=False): ...\n", 2, "missing 1 required positional argument: 'root'"),
        ("def load(**options):\n    return [][3]\n", 1, "own_data.py, line 2, in load"),
    ],
)
def test_a_missing_argument_is_a_sentence_and_a_bug_has_its_place(tmp_path, source, exit_code, said):
    yaml = "# @package _global_\ndataset:\n  _target_: own_data.load\n  size: 8\n  hold_out: false\n"
    write_files(tmp_path, {"mine/own_data.py": source, "mine/dataset/own.yaml": yaml})
    sys.modules.pop("own_data", None)
    code, err = call([*DRY, "--config-dir", "mine", "dataset=own"], tmp_path)
    assert code == exit_code, err
    assert said in err
    assert ("Traceback" in err) == (exit_code == 1)
