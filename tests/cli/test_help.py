"""`--help` reads the YAMLs and their comments, and imports no torch."""

import re

import pytest
from hydra import compose, initialize_config_dir

from contrastive.cli.help import explain
from contrastive.config.compose import search_path
from contrastive.config.reference import GROUPS, first_line, group_settings, option_files, root_settings
from contrastive.config.settings import Settings
from contrastive.errors import ConfigError
from tests.helpers import ROOT, write_files

MINE = """
class Mine:
    \"\"\"A loss of one's own.

    Args:
        margin: of it.
    \"\"\"

    def __init__(self, *, margin: float = 0.5) -> None: ...
"""


def test_an_option_is_its_yaml_as_it_stands_and_its_docstring():
    page = explain(["--help", "loss=debiased_pos"])
    yaml = (ROOT / "configs/loss/debiased_pos.yaml").read_text()
    assert "configs/loss/debiased_pos.yaml:" in page and all(f"  {line}" in page for line in yaml.splitlines())
    for text in ("P = (S + e^p + e^c) / (N + 2)", "contrastive.loss.debiased_pos.DebiasedPos:", "  loss.push=1.0 "):
        assert text in page
    assert "Args:" not in page


def test_an_option_that_derives_from_another_shows_both():
    page = explain(["head=simclr_cifar"])
    assert page.index("  n_layers: 3") < page.index("configs/head/mlp.yaml:") < page.index("  out_dim: 128")
    assert "contrastive.head.mlp.MLP:" in page
    assert "    blur: null" in explain(["augmentation=supcon"])


def test_a_setting_shows_where_it_stands_and_who_reads_it():
    first, *rest = explain(["tau_plus"]).splitlines()
    assert first.startswith("train.yaml ")
    assert first.endswith("tau_plus=0.1   # probability that a random image shares the anchor's class")
    assert any(line.split() == ["experiment=dcl", "tau_plus=0.1"] for line in rest)
    assert rest[-1].startswith("read by loss=bcl, loss=combination, loss=debiased_neg")
    assert "dataset=digits " in explain(["epochs"]) and "epochs=40" in explain(["epochs"])
    assert explain(["optimizer.lr=3"]).count("# learning rate") == len(option_files("optimizer"))
    assert "augmentation.ops.blur.p=0.5" in explain(["augmentation.ops.blur"])


def test_a_group_lists_its_options_and_those_of_ones_own(tmp_path):
    page = explain(["loss"])
    assert all(f"loss={name} " in page for name in option_files("loss"))
    yaml = "# My own loss\n_target_: my_loss.Mine\nmargin: 0.5   # of mine\n"
    write_files(tmp_path, {"loss/mine.yaml": yaml, "my_loss.py": MINE})
    assert "loss=mine " in explain(["loss", "--config-dir", str(tmp_path)])
    page = explain(["--config-dir", str(tmp_path), "loss=mine"])
    assert "A loss of one's own." in page
    assert "  margin: 0.5   # of mine" in page
    assert re.search(r"loss=mine +loss.margin=0.5   # of mine", explain(["--config-dir", str(tmp_path), "loss.margin"]))


def test_what_is_not_there_is_answered_with_its_neighbors():
    for word, said in (("tau_pluss", "did you mean tau_plus"), ("loss=nt_xnt", "did you mean loss=nt_xent?")):
        with pytest.raises(ConfigError, match=re.escape(said)):
            explain([word, "hydra.run.dir=run"])


def test_every_setting_and_every_option_has_its_sentence():
    settings = [item for items in root_settings().values() for item in items]
    assert {item.key for item in settings} | set(GROUPS) == set(Settings.__dataclass_fields__) | {"experiment"}
    assert not [item.key for item in settings if not item.sentence]
    assert list(group_settings()) == list(GROUPS)
    files = [file for group in GROUPS for file in option_files(group).values()]
    assert not [str(file) for file in files if not first_line(file)]


def test_a_folder_of_any_name_is_searched(tmp_path):
    folder = write_files(tmp_path / "it's, [mine]", {"loss/odd.yaml": "_target_: odd.Odd\n"})
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        assert compose("train", [*search_path([folder]), "loss=odd"]).loss._target_ == "odd.Odd"
