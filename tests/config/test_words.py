"""What is typed, and what the one sentence that answers it says to type: the one table of such sentences."""

import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from contrastive.cli import compare
from contrastive.cli.pack import folder_settings
from contrastive.config.words import GO_ON, check_words, quote_paths
from tests.cli.program import DRY, call

FAST = [  # without composing
    ("--lr 0.1", "try optimizer.lr=0.1"),
    ("--tau-plus=0.1", "try tau_plus=0.1"),
    ("--quiet", "try quiet=VALUE"),
    ("schedule=[constant,cosine]", "try schedule=OPTION, or python train.py -m schedule=A,B"),
    ("dataset=/data/own", "try dataset=image_folder dataset.root=/data/own"),
    ("dataset.root=a/000.tar dataset.root=a/001.tar", "2 words say dataset.root, as braces in the shell do: try"),
    ("hydra/launcher=slurm seed=0", "try -m before it, also for a single run"),
]
SLOW = [
    ("lr=0.1", "there is no setting lr: did you mean optimizer.lr or "),
    ("tau_pluss=0.1", "there is no setting tau_pluss: did you mean tau_plus or loss.tau_plus? try"),
    ("+unknown=1", "there is no setting unknown: try python train.py --help"),
    ("loss.temperatur=1", "did you mean loss.temperature or "),
    ("los=nt_xent", "did you mean loss? try"),
    ("loss=NTXent", "did you mean loss=nt_xent? try python train.py --help loss"),
    ("evaluator=[kn]", "did you mean evaluator=knn? try python train.py --help evaluator"),
    ("experiment=simclr", "did you mean experiment=simclr_cifar10 or experiment=simclr_cifar10_lightly? try"),
    ("augmentation=strong", "try python train.py --help augmentation, or --config-dir DIR"),
    ("loss=", "known are barlow, bcl"),
    ("loss=simclr", "try loss=nt_xent"),
    ("gpus=2", "try devices=2"),
    ("devices=9999 device=cpu", "devices=9999 needs a core for each process: try devices="),
    ("num_workers=4", "try it without: no process loads images here"),
    ("resume=true", f"try {GO_ON}"),
    ("wandb=true", "try 'tracker=[tensorboard,wandb]'"),
    ("dataset.root=own", "try dataset=image_folder dataset.root=own"),
    ("optimizer.momentum=0.9", "try optimizer=lars or optimizer=sgd with it"),
    ("tracker.wandb.mode=offline", "is of options that are not chosen: try tracker=wandb"),
    ("-m loss=nt_xent,triplet loss.margin=0.2", "try loss=contrastive_margin or loss=triplet with it"),
    ("loss = nt_xent", "loss is not KEY=VALUE: try it without blanks, or in quotes"),
    ("dataset.name=größe", "try it without blanks, or in quotes"),
    ("-m --cfg job", "Only one of --run, --multirun, --cfg"),
    ("'seed=0\r'", "try it without blanks, or in quotes"),
    ("evaluator=[knn, linear]", "or in quotes as 'evaluator=[knn,linear]'"),
    ("loss=nt_xent,debiased_pos", "To sweep over it, add --multirun to your command line"),
    ("dataset=cifar10 batch_size=abc", "batch_size must be int, got abc: try python train.py --help batch_size"),
    ("seed=null", "seed must be int, got null: try python train.py --help seed"),
    ("encoder.in_channels=three", "encoder.in_channels must be at least 1, got three: try encoder.in_channels=3"),
    ("sampler=class_balance", "try sampler=class_balanced"),
    ("loss.temperature={a:1}", "loss.temperature must be float, got {a:1}"),
    ("dataset.size=99999999999999999999999", "dataset.size must be int, got 9999"),
    ("--config-dir / --config-dir /", "takes one --config-dir: try hydra.searchpath=[file:///] beside it"),
    ("~epochs", "the setting epochs is missing"),
    ("~loss", "loss has no _target_: try it without ~loss"),
    ("'+loss.x={_target_:os.getcwd}'", "unexpected keyword argument 'x'"),
    ("loss._target_=my_loss.Loss", "names no module that Python finds: try --config-dir"),
    ("loss._target_=contrastive.loss.nt_xent.Nothing", "cannot be imported (ModuleNotFoundError: No module named"),
    ("loss._target_=__main__.Loss", "is defined in a script or notebook: try it in a module"),
    ("dataset=image_folder", "try dataset.root=PATH dataset.size=8"),
    ("dataset=image_folder dataset.size=8 dataset.root=/no", "/no is not a folder: put the images into"),
    ("--config-dir nothing", "Additional config directory"),
    ("hydra.run.dir=/etc/passwd/x", "/etc/passwd/x: not a directory: mend that and run the same command again"),
]


@pytest.mark.parametrize(
    ("typed", "answer"), [*FAST, *SLOW[:2], *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW[2:])]
)
def test_a_mistake_is_answered_in_one_sentence_with_what_to_type(tmp_path, typed, answer):
    words = shlex.split(typed)
    before = [word for word in DRY if "-m" not in words or "hydra.run.dir" not in word]
    code, said = call([*before, *words], tmp_path)
    assert code == 2, said
    assert answer in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "typed",
    ["-m evaluator=knn,linear seed=0,1", "--cfg job loss=nt_xent", "--config-dir mine loss=my_loss", "--help loss",
     "'+augmentation.ops.x={_target_: x.Y, p: 0.2}'", "dataset.test='{0..9}.tar'", "--help hydra/launcher=slurm",
     "-m hydra/launcher=slurm seed=0", "dataset=image_folder dataset.root=/data/own"],
)  # fmt: skip
def test_right_words_pass(typed):
    check_words(shlex.split(typed))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("dataset.root", text) for text in (
            "My Drive (1)", "a[1]/x", "B\u00fccher & co; #1!", "it's", "a, b", "x=y", "a/{000..099}.tar", "2750", "1e3",
            "2024_01", "plain/x-1.csv",
        )),
        ("hydra.run.dir", "runs of today"),
    ],
)  # fmt: skip
def test_a_path_is_taken_literally(key, text):
    (word,) = quote_paths([f"{key}={text}"])
    assert OverridesParser.create().parse_override(word).value() == text
    assert quote_paths([word]) == [word]


@pytest.mark.parametrize(
    "typed",
    ["dataset.root=${data_root}/x", "dataset.root=[a,b]", "dataset.root=null", "loss.x=a b", "optimizer.lr=1e-3",
     "seed=0,1", "dataset.name=2024"],
)  # fmt: skip
def test_what_is_of_hydras_grammar_stays(typed):
    assert quote_paths(["-m", typed]) == ["-m", typed]


def test_a_home_folder_is_expanded_and_each_value_of_a_sweep_is_a_path():
    assert quote_paths(["-m", "dataset.root=~/a b,~/c"])[1] == f"dataset.root='{Path.home()}/a b',{Path.home()}/c"


def test_compare_and_pack_take_a_path_literally_too(monkeypatch):
    seen: list[str] = []

    def run(words: list[str], **_: object) -> tuple[list[object], list[str]]:
        seen.extend(words)
        return [], ["it was not asked to"]

    monkeypatch.setattr(compare, "run_comparison", run)
    assert compare.main(["loss=a,b", "dataset.root=My Drive (1)"]) == 1
    assert seen == ["loss=a,b", "dataset.root='My Drive (1)'"]
    assert folder_settings(["dataset.table=labels (1).csv"]) == {"table": "labels (1).csv"}
