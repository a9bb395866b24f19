"""Runs on stored images, stopped and continued."""

import pytest

from contrastive.dataset.image_folder import listed_images
from contrastive.dataset.shard.pack import pack
from tests.dataset.data import RECIPE, continued, killed, ran
from tests.helpers import logged_lines, write_image_folder


@pytest.mark.slow
def test_a_run_on_shards_killed_and_continued_by_other_numbers_of_processes_is_the_undisturbed_one(tmp_path):
    pack(listed_images(write_image_folder(tmp_path / "insects", n=90)), tmp_path / "shards", per_shard=40)
    words = [
        *RECIPE, "dataset=shards", f"dataset.root={tmp_path}/shards/train", f"dataset.test={tmp_path}/shards/test",
        "dataset.size=12", "batch_size=12", "epochs=4", "checkpoint_every_minutes=0.0001", "noise_frac=0.2",
    ]  # fmt: skip
    whole, run = tmp_path / "whole", tmp_path / "run"
    ran(*words, f"hydra.run.dir={whole}", cwd=tmp_path)
    words += [f"hydra.run.dir={run}"]
    for n, after in ((1, 4), (2, 20), (2, 32)):
        killed(n, words, run, after=after)
    continued(3, words, tmp_path)
    mine, theirs = (
        [(line["step"], line["train/loss"]) for line in logged_lines(path) if "train/loss" in line]
        for path in (run, whole)
    )
    assert [step for step, _ in mine] == [step for step, _ in theirs] and len(mine) == 4 * (180 // 12)
    assert [loss for _, loss in mine] == pytest.approx([loss for _, loss in theirs], rel=1e-3)
