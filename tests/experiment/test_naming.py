"""Directories are named after what differs from the defaults, not after the words typed; what tells runs apart."""

import pytest

from contrastive.config.identity import config_hash, differences, flatten, is_identity
from tests.helpers import SOUND_CONFIG, run_named


def test_defaults_that_are_typed_change_nothing():
    assert run_named() == "digits/nt_xent/default/seed=0"
    assert run_named("epochs=40", "loss=nt_xent", "optimizer=adam", "tau_plus=0.1", "seed=3") == (
        "digits/nt_xent/default/seed=3"
    )
    assert run_named("device=cpu", "log_every=3", "evaluator.knn.every=0", "data_root=/x") == run_named()
    for words in ("evaluator=knn", "evaluator=[knn,rankme]", "evaluator=[]", "evaluator.knn.k=5"):
        assert run_named(words) == run_named()  # evaluators change no weight


def test_what_differs_is_in_the_name_in_one_order():
    first = run_named("epochs=5", "batch_size=64", "encoder=resnet50")
    assert first == run_named("encoder=resnet50", "batch_size=64", "epochs=5")
    assert first == "digits/nt_xent/encoder=resnet50,epochs=5,batch_size=64/seed=0"
    assert run_named("temperature=0.2") == "digits/nt_xent/temperature=0.2/seed=0"
    assert run_named("experiment=debiased_positive") == "cifar10/nt_xent/experiment=debiased_positive/seed=0"


def test_names_that_are_shortened_are_still_told_apart():
    milestones = ",".join(map(str, range(90)))
    names = [run_named("schedule=step", f"schedule.milestones=[{milestones},{last}]") for last in (100, 101)]
    assert all(len(name) <= 92 for name in names)
    assert names[0] != names[1]


def test_an_image_folder_is_called_by_its_name():
    words = ["dataset=image_folder", "dataset.size=32"]
    assert run_named(*words, "dataset.root=/somewhere/cats").startswith("image_folder-cats,size=32/nt_xent/default/")
    assert run_named(*words, "dataset.root=/x", "dataset.name=my cats").startswith("image_folder-my-cats,size=32/")


def test_a_map_of_colors_per_seed_is_not_in_the_name():
    assert run_named("dataset=biased_digits", "seed=3") == "biased_digits/supcon/default/seed=3"
    fixed = run_named("dataset=biased_digits", "seed=3", "dataset.data_seed=0")
    assert fixed == "biased_digits,data_seed=0/supcon/default/seed=3"


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
    flat = flatten(composed(*words).to_dict())
    assert {key for key in flat if not is_identity(key)} == {
        "device", "devices", "threads", "compile", "resident", "deterministic", "graphs", "data_root", "dataset.root",
        "dataset.cache", "checkpoint_every",
        "checkpoint_every_minutes", "log_every", "evaluator.knn.every", "rerun",
        "dry_run", "quiet", "profile", "hook", "tracker.tensorboard._target_",
    }  # fmt: skip


def test_a_whole_number_is_the_same_setting_with_and_without_its_point():
    one, same, other = ({**SOUND_CONFIG, "temperature": value} for value in (1, 1.0, 2))
    assert config_hash(one) == config_hash(same) != config_hash(other)
    assert differences(one, same) == []
