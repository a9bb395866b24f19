"""What a word that is none of ours stands for: the nearest known name, or what other programs mean by it."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

GO_ON = (
    "the same command again, which resumes, a larger epochs=N, which lengthens a finished run, "
    "encoder.weights=RUN, which starts from its weights, or rerun=true, which starts over"
)
# A word that people bring from other programs: what to type here, {} for its value
SYNONYMS = {
    "learning_rate": "optimizer.lr={}",
    "bs": "batch_size={}",
    "gpus": "devices={}",
    "data": "dataset={}",
    **dict.fromkeys(("model", "backbone"), "encoder={}"),
    **dict.fromkeys(("out", "output", "output_dir"), "hydra.run.dir={}"),
    "name": "hydra.run.dir=outputs/{}",
    "workers": "it without: no process loads images here",
    "amp": "precision=auto",
    "wandb": "'tracker=[tensorboard,wandb]'",
    **dict.fromkeys(("resume", "resume_from", "checkpoint", "ckpt_path"), GO_ON),
    "encoder.pretrained": "encoder=timm encoder.name=NAME encoder.pretrained={}",
    "dataset.test_split": "folders train/ and test/; without them a fixed fifth is the test split",
    "loss=simclr": "loss=nt_xent",
    "loss=infonce": "loss=nt_xent",
    "dataset=imagenet": "dataset=image_folder dataset.root=PATH, or experiment=imagenet100",
    "hydra/sweeper=optuna": "contrastive compare loss=NAME, which searches",
    "schedule=none": "schedule=constant",
    "evaluator=none": "'evaluator=[]'",
    "format": "--onnx, --pt2 or --huggingface DIR",
    "predict": "contrastive embed RUN FOLDER -o features.npz",
    "plot": "contrastive report, contrastive page or contrastive show RUN",
}
PREFIX = re.compile("^(use|num|n|max|exp|run)_")  # use_wandb, num_workers, run_name


def neighbors(word: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names, the nearest first: `lr` is near to `optimizer.lr`, `NTXent` to `nt_xent`."""
    names = list(dict.fromkeys(known))
    last = [name for name in names if "." in name and name.rpartition(".")[2] == word]
    plain = {name: _plain(name) for name in names}
    same = [name for name in names if plain[name] == _plain(word)]
    near = [*last, *same, *get_close_matches(word, names, n=3, cutoff=0.7)]
    parts = [name for name in names if len(word) > 2 and _plain(word) in plain[name]]
    return [*dict.fromkeys(near or parts)][:3]


def _plain(name: str) -> str:
    """A name as it is heard, without case, - and _."""
    return name.lower().replace("_", "").replace("-", "")


def did_you_mean(word: str, known: Iterable[str], *, typed: str = "{}") -> str:
    """`did you mean tau_plus?`, or nothing.

    Args:
        typed: how a name is typed, such as `loss={}`.
    """
    names = [typed.format(name) for name in neighbors(word, known)]
    return f"did you mean {' or '.join(names)}?" if names else ""


def synonym(word: str, value: str = "VALUE") -> str:
    """What is typed here for a word of other programs, such as `dataset.root=x` for `data.root`; nothing for others."""
    name = PREFIX.sub("", word.lower().lstrip("-").replace("-", "_"))
    group, _, rest = name.partition(".")
    if (own := SYNONYMS.get(group, "")).endswith("={}") and rest and name not in SYNONYMS:
        return f"{own.removesuffix('={}')}.{rest}={value}"
    return SYNONYMS.get(name, "").replace("{}", value)


def advice(word: str, known: Iterable[str], *, typed: str = "{}", value: str = "VALUE", otherwise: str) -> str:
    """What a sentence on an unknown word ends in: what to type, at the least `otherwise`."""
    if instead := synonym(typed.format(word), value):
        return f"try {instead}"
    near = did_you_mean(word, known, typed=typed)
    return f"{near} {otherwise}" if near else otherwise


def no_setting(key: str, known: Iterable[str], value: str = "VALUE") -> str:
    """The sentence for a setting that does not exist: which one was meant, and where they stand."""
    return f"there is no setting {key}: {advice(key, known, value=value, otherwise='try python train.py --help')}"
