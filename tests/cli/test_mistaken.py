"""Words of other programs and slips of the shell are answered with what to type."""

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser

from contrastive import Pairs, SelfSupervisedLoss, check_loss
from contrastive.cli import compare
from contrastive.cli.pack import folder_settings
from contrastive.config.messages import in_a_line
from contrastive.config.mistaken import check_words, quote_paths
from contrastive.errors import ConfigError


def test_a_launcher_may_be_looked_at_alone():
    for typed in ("--cfg hydra hydra/launcher=slurm", "--help hydra/launcher=slurm", "-m hydra/launcher=slurm seed=0"):
        check_words(shlex.split(typed))


def test_a_fault_is_placed_in_code_of_ones_own_and_without_a_traceback_nowhere(tmp_path):
    (tmp_path / "their_module.py").write_text("def broken():\n    return [][3]\n")
    with pytest.raises(IndexError) as error:
        exec(compile((tmp_path / "their_module.py").read_text() + "broken()", tmp_path / "their_module.py", "exec"), {})
    assert "their_module.py, line 2, in broken): try the same command once that is mended" in in_a_line(error.value)
    with pytest.raises(ValueError, match="a") as error:
        raise ValueError("a") from KeyError("of another process")
    assert in_a_line(error.value).startswith("ValueError: a (")
    assert in_a_line(KeyError("b")) == "KeyError: 'b': try the same command once that is mended"


@pytest.mark.parametrize(
    "typed",
    ["-m evaluator=knn,linear seed=0,1", "--cfg job loss=nt_xent", "--config-dir mine loss=my_loss", "--help loss",
     "'evaluator=[knn, linear]'", "'+augmentation.ops.x={_target_: x.Y, p: 0.2}'", "--multirun seed=0", "quiet=true",
     "data_root=/data/own", "dataset=image_folder dataset.root=/data/own", "experiment=imagenet100 dataset.root=x"],
)  # fmt: skip
def test_right_words_pass(typed):
    check_words(shlex.split(typed))


def test_the_braces_of_a_pattern_are_quoted_for_hydra():
    words = [
        "dataset=shards",
        "dataset.root=a/{000..099}.tar",
        "dataset.columns={label: y}",
        "dataset.test='{0..9}.tar'",
    ]
    assert quote_paths(words) == [words[0], "dataset.root='a/{000..099}.tar'", *words[2:]]
    with pytest.raises(ConfigError, match=r"-m starts several: try hydra\.sweep\.dir=PATH"):
        check_words(["-m", "hydra.run.dir=mine", "seed=0,1"])
    with pytest.raises(ConfigError, match=r"2 words say dataset\.root, as braces in the shell do: try"):
        check_words(["dataset=shards", "dataset.root=a/000.tar", "dataset.root=a/001.tar"])


@pytest.mark.parametrize(
    "path",
    [
        "My Drive/archive (1)",
        "a[1]/x",
        "B\u00fccher & co; #1!",
        "it's",
        "a, b",
        "x=y",
        "{a}",
        "plain/x-1.csv",
    ],
)
def test_a_path_is_taken_literally(path):
    for key in ("dataset.root", "bias_from", "hydra.run.dir"):
        (word,) = quote_paths([f"{key}={path}"])
        assert OverridesParser.create().parse_override(word).value() == path
        assert quote_paths([word]) == [word]


@pytest.mark.parametrize("pattern", [r"_([0-9]+)[.]png$", r"[ab](\d+)\.png$", "(a|b), c's", "x_(.*)_y"])
def test_a_pattern_of_biases_is_taken_literally(pattern):
    (word,) = quote_paths([f"dataset.bias_pattern={pattern}"])
    assert OverridesParser.create().parse_override(word).value() == pattern
    for stays in (word, 'dataset.bias_pattern="_(.)"', "dataset.bias_pattern=null", "dataset.bias_pattern=${x}"):
        assert quote_paths([stays]) == [stays]


def test_compare_and_pack_take_a_path_literally_too(monkeypatch):
    seen: list[str] = []

    def run(words: list[str], **_: object) -> list[SimpleNamespace]:
        seen.extend(words)
        return [SimpleNamespace(not_done=["it was not asked to"])]

    monkeypatch.setattr(compare, "run_comparison", run)
    assert compare.main(["loss=a,b", "dataset.root=My Drive (1)"]) == 1
    assert seen == ["loss=a,b", "dataset.root='My Drive (1)'"]
    assert folder_settings(["dataset.table=labels (1).csv"]) == {"table": "labels (1).csv"}


def test_the_home_folder_is_expanded_and_lists_and_references_stay(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert quote_paths(["dataset.root=~/my images"]) == ["dataset.root='/home/me/my images'"]
    for words in (["dataset.root=${data_root}/x"], ["-m", "dataset.root=a,b"], ["dataset.root=[a,b]"], ["loss.x=a b"]):
        assert quote_paths(words) == words


def test_a_detached_loss_is_one_sentence():
    class Detached(SelfSupervisedLoss):
        def per_anchor(self, pairs: Pairs) -> torch.Tensor:
            return pairs.positive_logits[:, 0].detach()

    with pytest.raises(AssertionError, match="the loss has no gradient: is there a"):
        check_loss(Detached())


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("dataset.name=größe", "dataset.name='größe'"),
        ("dataset.root=2750", "dataset.root='2750'"),
        ("dataset.root=1e3", "dataset.root='1e3'"),
        ("dataset.root=a b,2024_01", "dataset.root='a b','2024_01'"),
        ("dataset.name=2024_01_15", "dataset.name='2024_01_15'"),
        ("tracker.wandb.entity=1e3", "tracker.wandb.entity='1e3'"),
        ("hydra.sweep.dir=2024_02", "hydra.sweep.dir='2024_02'"),
        ("dataset.name=2024", "dataset.name=2024"),
        ("optimizer.lr=1e-3", "optimizer.lr=1e-3"),
        ("dataset.root=null", "dataset.root=null"),
        ("dataset.root=~/a,~/b", f"dataset.root={Path.home()}/a,{Path.home()}/b"),
        ("seed=0,1", "seed=0,1"),
    ],
)
def test_letters_numbers_and_homes_reach_hydra_as_they_were_meant(word, quoted):
    (found,) = quote_paths(["-m", word])[1:]
    assert found == quoted
    key, value = OverridesParser.create().parse_overrides([found])[0].key_or_group, found.partition("=")[2]
    assert (key, bool(value)) == (word.partition("=")[0], True)
