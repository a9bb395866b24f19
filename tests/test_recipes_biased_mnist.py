"""The recipes of Hong & Yang 2021 on Biased-MNIST, against facts typed from their code and not from the YAMLs."""

import pytest

HONG_YANG = [
    "hong_yang_ce",
    "hong_yang_bb",
    "hong_yang_lnl",
    "hong_yang_end",
    "hong_yang_bc_ce",
    "hong_yang_bc_bb",
    "bc_ce",
    "bc_bb",
]
CONTRASTIVE = HONG_YANG[4:]


@pytest.mark.parametrize("name", HONG_YANG)
def test_what_all_their_recipes_share(composed, name):
    settings = composed(f"experiment={name}", "dataset.rho=0.997", "seed=7")
    assert settings.dataset["_target_"].endswith("biased_mnist")
    assert (settings.dataset["colors"], settings.dataset["rho"]) == ("rebias", 0.997)  # the tenth color is gray
    assert settings.dataset["data_seed"] == 7
    encoder = settings.encoder
    assert (encoder["width"], encoder["kernel_size"]) == (16, 7)
    assert encoder["last"] == ("tanh" if name == "hong_yang_end" else "relu")
    optimizer = settings.optimizer
    assert optimizer["_target_"] == "torch.optim.Adam"
    assert (optimizer["lr"], optimizer["weight_decay"]) == (1e-4 if name == "hong_yang_bb" else 1e-3, 1e-4)
    assert settings.epochs == 80
    assert (settings.schedule["milestones"], settings.schedule["gamma"]) == ([26, 53], 0.1)
    assert settings.head["_target_"].endswith("Identity")


@pytest.mark.parametrize("name", HONG_YANG[:4])
def test_their_classifiers_see_plain_batches_of_128(composed, name):
    settings = composed(f"experiment={name}")
    assert (settings.batch_size, settings.n_views, settings.sampler) == (128, 1, "uniform")
    assert settings.augmentation["ops"] == {}


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_bc_and_its_companion_see_their_own_batches(composed, name):
    settings = composed(f"experiment={name}")
    assert (settings.batch_size, settings.n_views, settings.sampler) == (64, 2, "bias_balanced")
    assert settings.loss["_target_"].endswith("BiasContrastive")
    assert settings.loss["temperature"] == 0.07
    ops = {key: op for key, op in settings.augmentation["ops"].items() if op is not None}
    assert ops["rotation"]["degrees"] == 20
    assert set(ops) == ({"rotation", "jitter"} if name.startswith("hong_yang_") else {"rotation"})
    regularizer = settings.regularizer
    assert (regularizer["weight"], regularizer["stream"], regularizer["batch_size"]) == (0.01, "uniform", 128)
    assert regularizer["term"]["_target_"].endswith("BiasBalanced" if name.endswith("bb") else "CrossEntropy")


def test_end_and_lnl(composed):
    end, lnl = composed("experiment=hong_yang_end"), composed("experiment=hong_yang_lnl")
    assert end.loss["normalize"] is True
    assert {key: end.regularizer[key] for key in ("alpha", "beta", "semantics")} == {
        "alpha": 1.0, "beta": 1.0, "semantics": "released",
    }  # fmt: skip
    assert (lnl.regularizer["weight"], lnl.regularizer["kernel_size"]) == (1.0, 7)
    assert lnl.loss["normalize"] is False


def test_dataset_brings_its_own_epochs_and_learning_rate(composed):
    settings = composed("experiment=bc_ce", "dataset=biased_digits")
    assert (settings.epochs, settings.optimizer["lr"], settings.schedule["milestones"]) == (60, 3e-3, [30, 50])
    assert (settings.batch_size, settings.regularizer["batch_size"]) == (64, 128)


def test_fairkl_recipe_takes_the_released_variants(composed):
    settings = composed("experiment=eps_supinfonce_fairkl")
    assert settings.loss["semantics"] == settings.regularizer["semantics"] == "released"
    assert settings.dataset["colors"] == "barbano"
    assert (settings.batch_size, settings.n_views, settings.epochs) == (256, 1, 80)
