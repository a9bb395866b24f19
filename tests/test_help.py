"""`--help` and the reference of settings: both read the YAMLs, and their defaults are those that are composed."""

import re
import subprocess
import sys
from functools import reduce
from operator import getitem

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from contrastive.cli.help import explain, settings_reference
from contrastive.config.compose import search_path
from contrastive.config.reference import GROUPS, defaults, first_line, group_sentences, option_files, root_settings
from contrastive.config.settings import Settings
from contrastive.errors import ConfigError
from tests.helpers import ROOT, program

MINE = """
class Mine:
    \"\"\"A loss of one's own.

    Args:
        margin: of it.
    \"\"\"

    def __init__(self, *, margin: float = 0.5) -> None: ...
"""


def test_one_option_shows_its_formula_its_settings_and_its_source():
    page = explain(["--help", "loss=debiased_pos"])
    for text in (
        "Debiased positives (Troeshestova & Isachenko 2023)",
        "P = (S + e^p + e^c) / (N + 2)",
        "loss.tau_plus=${tau_plus}          the run's tau_plus: probability that a random image",
        "loss.semantics=paper               paper | released",
        "loss.push=1.0 ",
        "contrastive.loss.debiased_pos.DebiasedPos, configs/loss/debiased_pos.yaml",
    ):
        assert text in page
    assert "Args:" not in page


def test_an_option_that_derives_from_another_shows_both():
    page = explain(["head=simclr_cifar"])
    assert re.search(r"head.n_layers=3 +linear layers, at least 2", page)
    assert "head.out_dim=128" in page
    assert "contrastive.head.mlp.MLP" in page
    assert "augmentation.ops.blur=null" in explain(["augmentation=supcon"])
    assert "augmentation.ops.blur.p" not in explain(["augmentation=supcon"])


def test_one_setting_shows_who_reads_it_and_what_datasets_make_of_it():
    assert "read by loss=bcl, loss=combination, loss=debiased_neg" in explain(["tau_plus"])
    assert "epochs=40 with dataset=digits" in explain(["epochs"])
    assert explain(["optimizer.lr=3"]).count("learning rate") == 3


def test_a_group_lists_its_options_and_those_of_ones_own(tmp_path):
    page = explain(["loss"])
    assert all(f"loss={name} " in page for name in option_files("loss"))
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss/mine.yaml").write_text("# My own loss\n_target_: my_loss.Mine\nmargin: 0.5   # of mine\n")
    (tmp_path / "my_loss.py").write_text(MINE)
    assert "loss=mine " in explain(["loss", "--config-dir", str(tmp_path)])
    page = explain(["--config-dir", str(tmp_path), "loss=mine"])
    assert "A loss of one's own." in page
    assert "loss.margin=0.5  of mine" in page


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tau_pluss", "no setting tau_pluss: did you mean tau_plus or loss.tau_plus?"),
        ("loss=nt_xnt", "no loss=nt_xnt: did you mean loss=nt_xent?"),
        ("schedule=nothing", "no schedule=nothing: try python train.py --help schedule"),
    ],
)
def test_what_is_not_there_is_answered_with_its_neighbors(word, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        explain([word, "hydra.run.dir=run"])


def test_every_setting_and_every_option_has_its_sentence():
    settings = [item for _, items in root_settings() for item in items]
    assert {item.key for item in settings} | set(GROUPS) == set(Settings.__dataclass_fields__) | {"experiment"}
    assert not [item.key for item in settings if not item.sentence or not item.kind]
    assert list(group_sentences()) == list(GROUPS)
    files = [file for group in GROUPS for file in option_files(group).values()]
    assert not [str(file) for file in files if not first_line(file)]


@pytest.mark.parametrize(
    "words",
    [[], ["dataset=cifar10"], ["experiment=dcl"], ["experiment=bc_bb"], ["dataset=biased_digits", "loss=debiased_pos"]],
)
def test_the_defaults_are_those_that_hydra_composes(words):
    """Read from the YAMLs without composing them: a message must not fail where composing did."""
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        cfg = OmegaConf.to_container(compose("train", words), resolve=False)
    found = defaults(words)
    assert len(found) > 40
    for key, (value, _) in found.items():
        composed = reduce(getitem, key.split("."), cfg)
        written = value if "${" in value else OmegaConf.to_container(OmegaConf.create(f"x: {value}"))["x"]
        assert written == composed, key


def test_a_folder_of_any_name_is_searched(tmp_path):
    folder = tmp_path / "it's, [mine]"
    (folder / "loss").mkdir(parents=True)
    (folder / "loss/odd.yaml").write_text("_target_: odd.Odd\n")
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        assert compose("train", [*search_path([folder]), "loss=odd"]).loss._target_ == "odd.Odd"


def test_the_reference_has_every_setting_once():
    text = settings_reference()
    for _, settings in root_settings():
        for item in settings:
            assert text.count(f"\n| `{item.key}` | `") == 1
    assert "### loss=debiased_pos" in text
    assert "| `loss.semantics` | `str` | `paper` | paper \\| released" in text


@pytest.mark.slow
def test_the_first_screen_names_groups_and_settings_without_torch(tmp_path):
    (tmp_path / "mine/loss").mkdir(parents=True)
    (tmp_path / "mine/loss/margin_of_mine.yaml").write_text("# Mine\n_target_: my.Loss\n")
    page = program("--help", "--config-dir", "mine", cwd=tmp_path).stdout
    for text in ("tau_plus=0.1 ", "probability that a random image", "margin_of_mine", "epochs=40 ", "dataset=digits "):
        assert text in page
    code = "import sys; from contrastive.cli.train import main; sys.exit(main(['--help']) or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True).returncode == 0
