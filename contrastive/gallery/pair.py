"""The page of `contrastive show RUN RUN2`: the images that one run gets right and the other wrong."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.bits import unpack
from contrastive.config.identity import flatten
from contrastive.errors import ConfigError
from contrastive.gallery.features import images_judged, run_data
from contrastive.gallery.images import spaced, uris
from contrastive.gallery.run import name_of
from contrastive.run.files import RunState, read_evaluations
from contrastive.study.names import protocols_apart, setting_text
from contrastive.study.render.templates.fill import filled
from contrastive.study.runs import evaluator_of, protocol_of
from contrastive.text import as_typed
from contrastive.types import Data

N_SHOWN = 40  # images of each kind
FIRST = ("linear_top1", "knn_top1")  # accuracies, in the order in which they are looked for
Images = list[tuple[str, str]]  # (data URI, class)


class ReadOut(NamedTuple):
    """Which test images are right by one accuracy, and how it was read, in words."""

    correct: str  # see `bits`
    said: str


def pair_page(runs: dict[Path, RunState], *, folders: Sequence[Path] = ()) -> str:
    """The whole document of two finished runs: their results tell which images are right, and nothing is computed.

    Raises:
        ConfigError: they were judged on other images, or have no accuracy in common that was read alike; or see
            `run_data`.
    """
    (a, ours), (b, theirs) = runs.items()
    if ours.environment["data"] != theirs.environment["data"]:
        raise ConfigError(f"{a} and {b} were judged on other images: try two runs on the same data")
    data = run_data(a, ours, folders=folders)
    known = data.test.label.cpu() >= 0
    if not known.any():
        raise ConfigError(f"the test images of {a} have no labels to be right about: try one run alone")
    read, others = read_outs(a, ours), read_outs(b, theirs)
    common = sorted(read.keys() & others.keys(), key=lambda key: (_order(key[0]), key[1]))
    if not common:
        raise ConfigError(_nothing_alike(a, b, ours, theirs))
    metric, ours_said, theirs_said = common[0][0], read[common[0]].said, others[common[0]].said
    first, second = (torch.from_numpy(unpack(own[common[0]].correct)) for own in (read, others))
    kinds = {
        "both right": first & second, "only the first right": first & ~second, "only the second right": second & ~first,
        "both wrong": ~first & ~second & known,
    }  # fmt: skip
    return filled(
        "pair.html",
        charts=None,
        title="Two runs",
        split=images_judged(ours),
        runs=[str(a), str(b)],
        read_out=metric,
        protocol=" and ".join(filter(None, dict.fromkeys([ours_said, theirs_said]))),
        counts=[["", "images", "%"], *([kind, *_share(mask, int(known.sum()))] for kind, mask in kinds.items())],
        classes=by_class(data, kinds),
        shown={kind: images(data, mask) for kind, mask in kinds.items() if kind != "both right"},
    )


def read_outs(run: Path, state: RunState) -> dict[tuple[str, str], ReadOut]:
    """{(accuracy, settings that it was read with)}: of the run, and of later evaluations of the same images."""
    records = [
        (record, record["settings"]["evaluator"])
        for record in read_evaluations(run).values()
        if record["environment"].get("data") == state.environment["data"]
    ]
    found = {}
    for record, evaluators in [*records, (state.result, state.config["evaluator"])]:
        words = record["protocol"]
        for metric, correct in record.get("correct", {}).items():
            said = words.get(evaluator_of(metric, words), "")
            found[metric, protocol_of(metric, evaluators, words)] = ReadOut(correct, said)
    return found


def _order(metric: str) -> tuple[bool, bool, str]:
    return metric not in FIRST, metric != FIRST[0], metric


def _nothing_alike(a: Path, b: Path, ours: RunState, theirs: RunState) -> str:
    """What to type so that two runs have an accuracy that was read with the same settings."""
    again = f"try contrastive evaluate {as_typed(a)} {as_typed(b)}"
    metric = min(ours.result.get("correct", {}).keys() & theirs.result.get("correct", {}), key=_order, default=None)
    if metric is None:
        return f"{a} and {b} have no accuracy in common: {again} 'evaluator=[knn,linear]'"
    protocols = [protocol_of(metric, own.config["evaluator"], own.result["protocol"]) for own in (ours, theirs)]
    first, second = map(json.loads, protocols)
    name = evaluator_of(metric, second)
    before, after = (flatten(own[name], f"evaluator.{name}.") for own in (first, second))
    words = [f"{key}={setting_text(value)}" for key, value in after.items() if before.get(key) != value]
    return (
        f"{a} and {b} read {metric} with {' and with '.join(protocols_apart(protocols).values())}: "
        f"{again} {shlex.join([f'evaluator=[{name}]', *words])}"
    )


def _share(mask: Tensor, total: int) -> tuple[str, str]:
    n = int(mask.sum())
    return f"{n:,}", f"{100 * n / total:.1f}"


def by_class(data: Data, kinds: dict[str, Tensor]) -> list[list[str]]:
    """How many test images of each class are of which kind, as a grid: first those on which the runs differ most."""
    label = data.test.label.cpu()
    rows = [
        (c, [int((label == c).sum()), *(int(mask[label == c].sum()) for mask in kinds.values())])
        for c in label.unique().tolist() if c >= 0
    ]  # fmt: skip
    rows.sort(key=lambda row: -row[1][2] - row[1][3])
    return [["class", "images", *kinds], *([name_of(c, data.classes), *map(str, own)] for c, own in rows)]


def images(data: Data, mask: Tensor) -> Images:
    """Some test images of a kind, evenly spaced, with their classes."""
    rows = mask.nonzero().squeeze(1)
    rows = spaced(rows, N_SHOWN) if len(rows) else rows
    names = [name_of(int(data.test.label[row]), data.classes) for row in rows.tolist()]
    return list(zip(uris(data.test, rows), names, strict=True))
