"""What a word that is none of ours stands for: the nearest known name, or what other programs mean by it."""

from collections.abc import Iterable
from difflib import get_close_matches

GO_ON = (
    "the same command again, which resumes, "
    "encoder.weights=RUN, which starts from its weights, or rerun=true, which starts over"
)
CHUNKS = "grad_cache_chunk=128: plain accumulation is another loss, with the negatives of its own chunk alone"
# The words that people type most out of other programs: what to type here, {} for their value
SYNONYMS = {
    "learning_rate": "optimizer.lr={}",
    "gpus": "devices={}",
    "data": "dataset={}",
    "model": "encoder={}",
    "output_dir": "hydra.run.dir={}",
    "num_workers": "it without: no process loads images here",
    "wandb": "'tracker=[tensorboard,wandb]'",
    "resume": GO_ON,
    "checkpoint": GO_ON,
    "accumulate_grad_batches": CHUNKS,
    "gradient_accumulation_steps": CHUNKS,
    "loss=simclr": "loss=nt_xent",
    "loss=infonce": "loss=nt_xent",
    "dataset.root": "dataset=image_folder dataset.root={}",
    "dataset=imagenet": "dataset=image_folder dataset.root=PATH, or experiment=imagenet100",
}


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


def advice(word: str, known: Iterable[str], *, otherwise: str) -> str:
    """What a sentence on an unknown word ends in: its neighbors and what to type at the least, `otherwise`."""
    return f"{did_you_mean(word, known)} {otherwise}".lstrip()


def no_setting(key: str, known: Iterable[str], value: str = "VALUE") -> str:
    """The sentence for a setting that does not exist."""
    if key in SYNONYMS:
        return f"there is no setting {key}: try {SYNONYMS[key].format(value)}"
    return f"there is no setting {key}: {advice(key, known, otherwise='try python train.py --help')}"


def no_option(group: str, name: str, known: Iterable[str]) -> str:
    """The sentence for an option that a group does not have."""
    typed = f"{group}={name}"
    if typed in SYNONYMS:
        return f"there is no {typed}: try {SYNONYMS[typed]}"
    see = f"try python train.py --help {group}, or --config-dir DIR with one of your own"
    near = did_you_mean(name, known, typed=f"{group}={{}}") or f"known are {', '.join(known) or 'none'}:"
    return f"there is no {typed}: {near} {see}"
