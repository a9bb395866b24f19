"""Directories are named after what differs from the defaults, not after the words typed; what tells runs apart."""

import shlex

import pytest

from contrastive.config.identity import config_hash, differences, flatten, is_identity
from tests.helpers import SOUND_CONFIG, run_named

PLAIN, LONG = "digits/nt_xent/default/seed=0", "digits/nt_xent/encoder=resnet50,epochs=5,batch_size=64/seed=0"
FOLDER = "dataset=image_folder dataset.size=32"
NAMES = [
    ("", PLAIN),
    ("epochs=40 loss=nt_xent optimizer=adam tau_plus=0.1 seed=3", "digits/nt_xent/default/seed=3"),
    ("device=cpu log_every=3 evaluator.knn.every=0 data_root=/x", PLAIN),
    *((f"evaluator{words}", PLAIN) for words in ("=knn", "=[knn,rankme]", "=[]", ".knn.k=5")),  # they change no weight
    ("epochs=5 batch_size=64 encoder=resnet50", LONG),
    ("encoder=resnet50 batch_size=64 epochs=5", LONG),
    ("temperature=0.2", "digits/nt_xent/temperature=0.2/seed=0"),
    ("experiment=debiased_positive", "cifar10/nt_xent/experiment=debiased_positive/seed=0"),
    (f"{FOLDER} dataset.root=/somewhere/cats", "image_folder-cats,size=32/nt_xent/default/seed=0"),
    (f"{FOLDER} dataset.root=/x 'dataset.name=my cats'", "image_folder-my-cats,size=32/nt_xent/default/seed=0"),
    ("dataset=biased_digits seed=3", "biased_digits/supcon/default/seed=3"),  # whose colors follow from the seed
    ("dataset=biased_digits seed=3 dataset.data_seed=0", "biased_digits,data_seed=0/supcon/default/seed=3"),
]


@pytest.mark.parametrize(("typed", "name"), NAMES)
def test_a_directory_is_named_after_what_differs_in_one_order(typed, name):
    assert run_named(*shlex.split(typed)) == name


def test_names_that_are_shortened_are_still_told_apart():
    milestones = ",".join(map(str, range(90)))
    names = [run_named("schedule=step", f"schedule.milestones=[{milestones},{last}]") for last in (100, 101)]
    assert all(len(name) <= 92 for name in names)
    assert names[0] != names[1]


@pytest.mark.parametrize(
    ("words", "stem"),
    [
        (["dataset=cifar10"], "small"),
        (["dataset=image_folder", "dataset.size=224", "encoder=resnet50"], "large"),
        (["dataset.size=64"], "large"),
        (["dataset.size=64", "encoder.stem=small"], "small"),
        (["experiment=dcl"], "small"),  # views of 32 pixels of images of 96
        (["experiment=corrupted_cifar10_ce"], "large"),  # which names it
        (["dataset=arrays", "augmentation=none"], "small"),
    ],
)
def test_the_stem_follows_the_side_of_the_views_and_is_named_where_it_is_typed(composed, words, stem):
    assert composed(*words).encoder["stem"] == stem
    assert ("stem" in run_named(*words)) == any("stem" in word for word in words)


def test_differences_leave_out_settings_that_change_no_result():
    old = {"device": "cpu", "threads": 1, "quiet": False, "evaluator": {"knn": {"every": 1, "k": 5}}}
    other = {"device": "cuda", "threads": 2, "quiet": True, "evaluator": {"knn": {"every": 5, "k": 5}}}
    assert differences(old, other) == []
    assert differences(old, {"evaluator": {"knn": {"every": 1, "k": 6}}}) == ["evaluator.knn.k: 5 -> 6"]
    assert differences({"a": 1}, {"c": 2}) == ["a: 1 -> (absent)", "c: (absent) -> 2"]


def test_settings_that_may_change_a_figure_tell_runs_apart(composed):
    """Who adds one here lets runs be resumed under another value of it."""
    words = ["dataset=image_folder", "dataset.root=x", "dataset.size=8", "evaluator=[knn]"]
    assert {key for key in flatten(composed(*words).to_dict()) if not is_identity(key)} == {
        "device", "devices", "threads", "compile", "resident", "deterministic", "graphs", "data_root", "dataset.root",
        "dataset.cache", "checkpoint_every",
        "checkpoint_every_minutes", "log_every", "evaluator.knn.every", "rerun",
        "dry_run", "quiet", "profile", "hook", "tracker.tensorboard._target_",
    }  # fmt: skip


def test_a_whole_number_is_the_same_setting_with_and_without_its_point():
    one, same, other = ({**SOUND_CONFIG, "temperature": value} for value in (1, 1.0, 2))
    assert config_hash(one) == config_hash(same) != config_hash(other)
    assert differences(one, same) == []
