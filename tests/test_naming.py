"""Directories are named after what differs from the defaults, not after the words typed."""

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import setup_globals
from hydra.types import RunMode

from contrastive.config.naming import run_name
from tests.helpers import ROOT


@pytest.fixture
def named():
    """named(*words): the name of the run that these words compose."""
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        setup_globals()
        loader = GlobalHydra.instance().config_loader()

        def name(*words: str) -> str:
            cfg = loader.load_configuration("train", list(words), run_mode=RunMode.RUN)
            cfg.hydra.job.config_name = "train"
            return run_name(_root_=cfg)

        yield name


def test_defaults_that_are_typed_change_nothing(named):
    assert named() == "digits/nt_xent/default/seed=0"
    assert named("epochs=40", "loss=nt_xent", "optimizer=adam", "tau_plus=0.1", "seed=3") == (
        "digits/nt_xent/default/seed=3"
    )
    assert named("device=cpu", "log_every=3", "evaluator.knn.every=0", "data_root=/x") == named()


def test_what_differs_is_in_the_name_in_one_order(named):
    first = named("epochs=5", "batch_size=64", "encoder=resnet50")
    assert first == named("encoder=resnet50", "batch_size=64", "epochs=5")
    assert first == "digits/nt_xent/encoder=resnet50,epochs=5,batch_size=64/seed=0"
    assert named("temperature=0.2") == "digits/nt_xent/temperature=0.2/seed=0"
    assert named("experiment=debiased_positive") == "cifar10/nt_xent/experiment=debiased_positive/seed=0"


def test_evaluators_are_part_of_the_name(named):
    assert named("evaluator=[knn]") == "digits/nt_xent/evaluator=knn/seed=0"
    assert named("evaluator=knn") == named("evaluator=[knn]")
    assert named("evaluator=[knn,rankme]") == "digits/nt_xent/evaluator=knn+rankme/seed=0"
    assert named("evaluator=[]") == "digits/nt_xent/evaluator=/seed=0"
    assert named("evaluator=[knn,linear,few_shot,classifier,bias_audit]") == named()


def test_long_and_odd_names_are_told_apart(named):
    one = named("optimizer.betas=[0.9,0.99]")
    other = named("optimizer.betas=[0.9,0.98]")
    assert one != other
    assert "[" not in one
    milestones = ",".join(map(str, range(90)))
    assert len(named("schedule=step", f"schedule.milestones=[{milestones}]").split("/")[2]) <= 200


def test_an_image_folder_is_called_by_its_name(named):
    words = ["dataset=image_folder", "dataset.size=32"]
    assert named(*words, "dataset.root=/somewhere/cats").startswith("image_folder-cats/nt_xent/dataset.size=32/")
    assert named(*words, "dataset.root=/x", "dataset.name=my cats").startswith("image_folder-my-cats/")


def test_a_map_of_colors_per_seed_is_not_in_the_name(named):
    assert named("dataset=biased_digits", "seed=3") == "biased_digits/supcon/default/seed=3"
    fixed = named("dataset=biased_digits", "seed=3", "dataset.data_seed=0")
    assert fixed == "biased_digits/supcon/dataset.data_seed=0/seed=3"
