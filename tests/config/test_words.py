"""What is typed, and what the one sentence that answers it says to type: the one table of such sentences."""

import ast
import shlex
from pathlib import Path

import pytest

from contrastive.config.neighbors import GO_ON
from tests.cli.hostile import DRY, call

RUN = "outputs/digits/nt_xent/default/seed=0"
FAST = [  # without composing
    ("--loss debiased_pos", "try loss=debiased_pos"),
    ("--lr 0.1", "try optimizer.lr=0.1"),
    ("--learning-rate=0.1", "try optimizer.lr=0.1"),
    ("--tau-plus 0.1", "try tau_plus=0.1"),
    ("--quiet", "try quiet=VALUE"),
    ("--resume", f"try {GO_ON}"),
    ("--use-wandb", "try 'tracker=[tensorboard,wandb]'"),
    ("--exp-name mine", "try hydra.run.dir=outputs/mine"),
    ("evaluator=knn,linear", "try 'evaluator=[knn,linear]'"),
    ("evaluator=[knn, linear]", "try 'evaluator=[knn,linear]'"),
    ("evaluator=[knn linear]", "try 'evaluator=[knn,linear]'"),
    ("schedule=[constant,cosine]", "try python train.py -m schedule=constant,cosine"),
    ("'augmentation=[simclr, crop_flip]'", "try python train.py -m augmentation=simclr,crop_flip"),
    ("loss=[nt_xent]", "try loss=nt_xent"),
    ("loss=nt_xent,debiased_pos", "try python train.py -m loss=nt_xent,debiased_pos"),
    ("temperature=0,5", "try python train.py -m temperature=0,5, or temperature=0.5 with a point"),
    ("'optimizer.lr = 0.1'", "try optimizer.lr=0.1"),
    ("'seed=0\r'", "try seed=0 in a script whose lines end as those of Linux do"),
    ("~loss", "every run has one option of loss: try it without ~loss"),
    ("dataset=/data/own", "try dataset=image_folder dataset.root=/data/own"),
    ("dataset=own/images", "try dataset=image_folder dataset.root=PATH"),
    ("dataset.root=own", "try dataset=image_folder dataset.root=own"),
    ("dataset.table=x.csv", "try dataset=image_folder dataset.root=PATH dataset.table=x.csv"),
    ("dataset.table=x.csv dataset.root=y", "try dataset=image_folder dataset.table=x.csv"),
    ("-m --cfg job", "try it without -m"),
    ("hydra/launcher=slurm seed=0", "try -m before it, also for a single run"),
]
SLOW = [
    ("tau_pluss=0.1", "there is no setting tau_pluss: did you mean tau_plus? try python train.py --help"),
    ("--config-dir nothing", "Additional config directory"),
    ("hydra.run.dir=/etc/passwd/x", "/etc/passwd/x: not a directory"),
    (f"hydra.run.dir={'a' * 300}", "file name too long: try a shorter hydra.run.dir=PATH"),
    ("+unknown=1", "there is no setting unknown: try python train.py --help"),
    ("accumulate_grad_batches=4", "another loss"),
    ("loss=", "known are barlow, bcl"),
    ("lr=0.1", "there is no setting lr: did you mean optimizer.lr? try"),
    ("loss.temperatur=1", "did you mean loss.temperature or temperature? try"),
    ("los=nt_xent", "did you mean loss? try"),
    ("loss=debiased_poss", "did you mean loss=debiased_pos or loss=debiased_neg? try"),
    ("loss=NTXent", "did you mean loss=nt_xent? try"),
    ("experiment=simclr", "did you mean experiment=simclr_cifar10 or experiment=simclr_cifar10_lightly? try"),
    ("evaluator=[kn]", "did you mean evaluator=knn? try python train.py --help evaluator"),
    ("evaluator=none", "try 'evaluator=[]'"),
    ("schedule=none", "try schedule=constant"),
    ("augmentation=strong", "try python train.py --help augmentation, or --config-dir DIR"),
    ("encoder=dinov2", "try encoder=timm encoder.name=dinov2, or --config-dir DIR"),
    (
        "encoder=resnet101",
        "or encoder=resnet34? try encoder=timm encoder.name=resnet101",
    ),
    ("encoder.pretrained=true", "try encoder=timm encoder.name=NAME encoder.pretrained=true"),
    ("dataset=imagenet", "try dataset=image_folder dataset.root=PATH, or experiment=imagenet100"),
    ("dataset.test_split=0.2", "try folders train/ and test/"),
    ("data.root=x", "try dataset.root=x"),
    ("model=resnet18", "try encoder=resnet18"),
    ("gpus=2", "try devices=2"),
    ("num_workers=4", "try it without: no process loads images here"),
    ("workers=4", "try it without: no process loads images here"),
    ("max_epochs=3", "did you mean epochs"),
    ("resume=true", f"try {GO_ON}"),
    (f"checkpoint={RUN}", f"try {GO_ON}"),
    (f"resume_from={RUN}", f"try {GO_ON}"),
    ("ckpt_path=last.ckpt", f"try {GO_ON}"),
    ("wandb=true", "try 'tracker=[tensorboard,wandb]'"),
    ("use_amp=1", "try precision=auto"),
    ("output_dir=x", "try hydra.run.dir=x"),
    ("run_name=mine", "try hydra.run.dir=outputs/mine"),
    ("-m loss=nt_xent,triplet loss.margin=0.2", "nt_xent has no setting loss.margin: try loss=triplet with it"),
    (
        "-m optimizer=adam,sgd optimizer.momentum=0.9",
        "adam has no setting optimizer.momentum: try optimizer=sgd",
    ),
    ("dataset=cifar10 batch_size=abc", "batch_size must be a whole number, got abc: try batch_size=512"),
    ("experiment=dcl epochs=abc", "try epochs=400"),
    ("seed=null", "seed must be a whole number, got null: try seed=0"),
    ("sampler=class_balance", "try sampler=class_balanced"),
    ("+seed=1", "An item is already at 'seed'"),
    ("~epochs", "the setting epochs is missing"),
    ("regularizer=[[1,2],[3]]", "cannot compose the configuration"),
    ("+evaluator.unknown=1", "evaluator.unknown must be a YAML with a _target_"),
    ("loss.temperature={a:1}", "loss.temperature must be a number, got {a:1}"),
    ("dataset.size=99999999999999999999999", "dataset.size must be a whole number, got 9999"),
    ("loss._target_=my_loss.Loss", "names no module that Python finds: try --config-dir"),
    ("loss._target_=contrastive.loss.nt_xent.Nothing", "has no Nothing: try a class of it in _target_"),
    ("loss._target_=__main__.Loss", "is defined in a script or notebook: try it in a module"),
    ("tracker.wandb.mode=offline", "is of a tracker that is not chosen: try 'tracker=[tensorboard,wandb]'"),
    ("evaluator=[few_shot] evaluator.few_shot.evry=2", "did you mean evaluator.few_shot.every"),
    ("dataset=image_folder", "needs the folder of its images: try dataset.root=PATH"),
    ("dataset=image_folder dataset.size=8 dataset.root=/no", "/no is not a folder: put the images into"),
    ("loss nt_xent", "loss is not KEY=VALUE: try loss=nt_xent"),
    ("loss = nt_xent", "loss is not KEY=VALUE: try loss=nt_xent"),
    ("--config-name other", "Cannot find primary config 'other'"),
]


@pytest.mark.parametrize(
    ("typed", "answer"), [*FAST, SLOW[0], *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW[1:])]
)
def test_a_mistake_is_answered_in_one_sentence_with_what_to_type(tmp_path, typed, answer):
    words = shlex.split(typed)
    before = [word for word in DRY if "-m" not in words or "hydra.run.dir" not in word]
    code, said = call([*before, *words], tmp_path)
    assert code == 2, said
    assert answer in said
    assert len(said.strip().splitlines()) == 1


def test_nothing_in_config_imports_in_a_circle():
    """Imports inside functions count, too: they would hide one."""
    folder = Path("contrastive/config")
    found = {
        path.stem: {
            node.module.rpartition(".")[2]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("contrastive.config.")
        }
        for path in folder.glob("*.py")
    }
    while leaves := [name for name, needs in found.items() if not needs & found.keys()]:
        for name in leaves:
            del found[name]
    assert not found
