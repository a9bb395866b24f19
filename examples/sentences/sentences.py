"""Sentences in place of images: a GRU learns from consecutive sentences with any loss that needs no labels.

python examples/sentences/sentences.py loss=debiased_neg tau_plus=0.01
python examples/sentences/sentences.py loss=nt_xent corpus=books.txt senteval=SentEval/data/downstream epochs=1

As Quick-Thoughts (Logeswaran & Lee 2018), on which Chuang et al. 2020 tried debiased negatives (Table 2): two GRUs read
a sentence and the one that follows it, and the loss is to find the follower among those of the batch. A loss needs only
z (B, V, D), so nothing of the package knows about text. The default corpus is the part of Python's language reference
that Python carries along; the probe tells which of its topics a held-out sentence is from.

Settings, as key=value: loss (a name in configs/loss) and any setting of it; corpus (a text file, a sentence in each
line, in order), senteval (a folder with MR, CR, SUBJ, MPQA, TREC as SentEval lays them out), epochs, batch_size, dim,
lr, seed.
"""

import pydoc_data.topics
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch
import yaml
from torch import Tensor, nn

from contrastive import FeatureSets, Loss, make
from contrastive.evaluator.linear import Linear
from contrastive.types import Features, Split

DEFAULTS = {
    "loss": "debiased_neg", "corpus": None, "senteval": None,
    "epochs": 10, "batch_size": 128, "dim": 256, "lr": 1e-3, "seed": 0,
}  # fmt: skip
WORDS, LENGTH = 20_000, 40  # of the vocabulary, and of a sentence at most
# SentEval's files, with the class of their lines; TREC has a class in front of each line and a test file
SENTEVAL = {
    "MR": {"rt-polarity.neg": 0, "rt-polarity.pos": 1},
    "CR": {"custrev.neg": 0, "custrev.pos": 1},
    "SUBJ": {"subj.subjective": 0, "subj.objective": 1},
    "MPQA": {"mpqa.neg": 0, "mpqa.pos": 1},
}


class Sentences(NamedTuple):
    """Sentences in their order with a class each."""

    text: list[str]
    label: Tensor  # (N,) int64


class Encoder(nn.Module):
    """Word numbers (B, L), 0 = no word → the last state of a GRU (B, dim)."""

    def __init__(self, n_words: int, dim: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, dim, padding_idx=0)
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.gru(self.words(x))[0]
        last = (x > 0).sum(1).clamp(min=1) - 1
        return states[torch.arange(len(x)), last]


def language_reference() -> Sentences:
    """Sentences of the topics that have at least 30 of them; the class is the topic."""
    text, label = [], []
    for topic in sorted(pydoc_data.topics.topics):
        plain = " ".join(pydoc_data.topics.topics[topic].split())
        found = [s for s in re.split(r"(?<=[.!?:]) ", plain) if 4 <= len(words(s)) <= LENGTH]
        if len(found) >= 30:
            label += [len(set(label))] * len(found)
            text += found
    return Sentences(text, torch.tensor(label))


def words(sentence: str) -> list[str]:
    return re.findall(r"[a-z_]+|[0-9]+", sentence.lower())


def numbers(text: list[str], vocabulary: dict[str, int]) -> Tensor:
    """(N, LENGTH): the numbers of the words, 1 for an unknown one, 0 behind the last."""
    rows = torch.zeros(len(text), LENGTH, dtype=torch.int64)
    for row, sentence in zip(rows, text, strict=True):
        known = [vocabulary.get(word, 1) for word in words(sentence)[:LENGTH]]
        row[: len(known)] = torch.tensor(known, dtype=torch.int64)
    return rows


def train(x: Tensor, follows: Tensor, loss: Loss, settings: dict[str, object]) -> nn.ModuleList:
    """Two GRUs, one for a sentence and one for its follower.

    Args:
        x: sentences (N, LENGTH). follows: (n,) rows that have a follower, the row behind.
    """
    torch.manual_seed(settings["seed"])
    dim, batch_size = int(settings["dim"]), int(settings["batch_size"])
    encoders = nn.ModuleList(Encoder(int(x.max()) + 1, dim) for _ in range(2))
    loss.check_config(batch_size=batch_size)
    loss.prepare(Split(torch.zeros(len(x), 3, 1, 1), torch.zeros(len(x))), n_classes=0, dim=dim)
    optimizer = torch.optim.Adam([*encoders.parameters(), *loss.parameters()], lr=float(settings["lr"]))
    for epoch in range(int(settings["epochs"])):
        total, batches = 0.0, follows[torch.randperm(len(follows))].split(batch_size)
        for rows in batches:
            z = torch.stack([encoders[0](x[rows]), encoders[1](x[rows + 1])], 1)
            value = loss(z)
            optimizer.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(encoders.parameters(), 5.0)
            optimizer.step()
            total += value.item() / len(batches)
        print(f"epoch {epoch + 1}  loss {total:.3f}", flush=True)
    return encoders


@torch.no_grad()
def embed(encoders: nn.ModuleList, x: Tensor) -> Tensor:
    """(N, 2 · dim): what both GRUs say of each sentence, as Quick-Thoughts is used."""
    return torch.cat([torch.cat([encoder(part) for encoder in encoders], 1) for part in x.split(1000)])


def probe(h: Tensor, label: Tensor, test: Tensor) -> float:
    """Test accuracy in percent of the package's linear probe.

    Args:
        h: (N, F). label: (N,). test: (N,) bool; a tenth of the others selects the probe's strength.
    """
    rest = (~test).nonzero().squeeze(1)
    parts = {
        "bank": rest,
        "train": rest[rest % 10 != 9],
        "val": rest[rest % 10 == 9],
        "test": test.nonzero().squeeze(1),
    }
    sets = {name: Features(h[rows], label[rows]) for name, rows in parts.items()}
    return Linear()(FeatureSets(**sets, n_classes=int(label.max()) + 1)).test["top1"]


def senteval(folder: Path, encoders: nn.ModuleList, vocabulary: dict[str, int]) -> dict[str, float]:
    """{task: accuracy}: the mean over ten folds, of TREC on its test file."""
    results = {}
    for task, files in SENTEVAL.items():
        lines = [(s, c) for name, c in files.items() for s in (folder / task / name).read_text("latin-1").splitlines()]
        h = embed(encoders, numbers([sentence for sentence, _ in lines], vocabulary))
        label = torch.tensor([c for _, c in lines])
        order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(0))
        folds = [probe(h[order], label[order], torch.arange(len(lines)) % 10 == k) for k in range(10)]
        results[task] = sum(folds) / 10
    parts = [
        (folder / "TREC" / name).read_text("latin-1").splitlines() for name in ("train_5500.label", "TREC_10.label")
    ]
    kinds = sorted({line.split(":")[0] for line in parts[0]})
    everything = [*parts[0], *parts[1]]
    h = embed(encoders, numbers([line.partition(" ")[2] for line in everything], vocabulary))
    label = torch.tensor([kinds.index(line.split(":")[0]) for line in everything])
    return {**results, "TREC": probe(h, label, torch.arange(len(everything)) >= len(parts[0]))}


def main(arguments: list[str]) -> None:
    if {"-h", "--help"}.intersection(arguments):
        print(__doc__.strip())
        return
    typed = {key: yaml.safe_load(value) for key, _, value in (word.partition("=") for word in arguments)}
    settings = {**DEFAULTS, **{key: value for key, value in typed.items() if key in DEFAULTS}}
    loss = make(f"loss/{settings['loss']}", **{key: value for key, value in typed.items() if key not in DEFAULTS})
    reference = language_reference()
    text, label = reference
    if settings["corpus"]:
        text = Path(settings["corpus"]).read_text().splitlines()
    counts = Counter(word for sentence in text for word in words(sentence))
    vocabulary = {word: i for i, (word, _) in enumerate(counts.most_common(WORDS), 2)}
    x = numbers(text, vocabulary)
    rows = torch.arange(len(x) - 1)
    held_out = torch.arange(len(label)) % 10 == 4  # of the language reference: the probe's test sentences
    if not settings["corpus"]:
        rows = rows[(label[:-1] == label[1:]) & ~held_out[:-1] & ~held_out[1:]]
    print(f"{len(rows):,} pairs of sentences, {len(vocabulary):,} words, {type(loss).__name__}")
    untrained = train(x, rows, loss, {**settings, "epochs": 0})
    encoders = train(x, rows, loss, settings)
    topics = numbers(reference.text, vocabulary)
    for name, pair in (("untrained", untrained), ("trained", encoders)):
        print(f"{name:>9}: topic of a held-out sentence {probe(embed(pair, topics), label, held_out):.2f} %")
    if settings["senteval"]:
        for task, accuracy in senteval(Path(settings["senteval"]), encoders, vocabulary).items():
            print(f"{task:>9}: {accuracy:.2f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
