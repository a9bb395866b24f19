"""Types and ranges of the settings."""

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException

from contrastive.config.messages import user_message
from contrastive.config.settings import Settings, unused_overrides
from contrastive.errors import ConfigError
from tests.helpers import ROOT


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("epochs=-1", "epochs=50"),
        ("held_out=-1", "held_out=0"),
        ("tau_plus=1.5", "tau_plus=0.1"),
        ("temperature=0", "temperature=0.5"),
        ("encoder.frozen=-1", "encoder.frozen=0.5"),
        ("encoder.layer_decay=0", "encoder.layer_decay=0.75"),
        ("loss.push=-1", "loss.push=4"),
        ("views_forward=both", "views_forward=fused"),
        ("sampler=bias_balance", "sampler=bias_balanced"),
        ("precision=fp8", "precision=auto"),
        ("resident=maybe", "resident=auto"),
        ("batch_size=1", "batch_size=128"),
        ("n_views=0", "n_views=2"),
        ("log_every=0", "log_every=100"),
        ("threads=99999999999999999999999", "threads=auto"),
    ],
)
def test_value_out_of_range_is_refused_at_once(composed, word, advice):
    with pytest.raises(ConfigError, match=rf"got .*try {advice}|leaves.*try {advice}"):
        composed(word)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("epochs=many", "epochs must be int, got many: try python train.py --help epochs"),
        ("rerun=maybe", "rerun must be bool, got maybe: try python train.py --help rerun"),
        ("epocs=3", "there is no setting epocs: did you mean epochs? try python train.py --help"),
    ],
)
def test_a_wrong_type_or_name_is_one_sentence(composed, word, message):
    with pytest.raises(ConfigCompositionException) as caught:
        composed(word)
    assert user_message(caught.value, words=[word]) == message


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["noise_frac=0.3", "n_views=1"], "n_views=2"),
        (["+surprise=1"], "--help"),
    ],
)
def test_every_combination_rule_names_a_way_out(composed, words, advice):
    with pytest.raises(ConfigError, match=f"try .*{advice}"):
        composed(*words)


def test_settings_are_those_that_their_own_config_yaml_gives(composed):
    settings = composed("dataset=digits", "threads=2")
    assert Settings(**settings.to_dict()) == settings
    assert settings.to_dict()["loss"]["push"] == 1  # what is not typed is written, too


def test_settings_of_evaluators_not_chosen_are_dropped(composed):
    settings = composed("evaluator=[linear]")  # the digits' recipe holds evaluator.knn.k
    assert list(settings.evaluator) == ["linear"]
    assert list(composed().evaluator) == ["knn", "linear", "few_shot", "classifier", "bias_audit"]
    assert composed("evaluator=[]").evaluator == {}


def test_an_evaluator_without_a_package_line_is_refused(composed):
    with pytest.raises(ConfigError, match=r"# @package evaluator\.NAME"):
        composed("+evaluator._target_=mine.RankMe")


def test_overrides_that_nothing_reads_are_named():
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        words = ["loss=nt_xent", "tau_plus=0.3", "temperature=0.2", "evaluator=[linear]", "evaluator.knn.k=3"]
        assert unused_overrides(compose("train", words), words) == ["tau_plus", "evaluator.knn.k"]
        words = ["loss=debiased_neg", "tau_plus=0.3", "evaluator.knn.k=3"]
        assert unused_overrides(compose("train", words), words) == []
