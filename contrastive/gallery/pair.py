"""The page of `contrastive show RUN RUN2`: the images that one run gets right and the other wrong."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from contrastive.bits import unpack
from contrastive.errors import ConfigError
from contrastive.gallery.features import run_data
from contrastive.gallery.images import spaced, uris
from contrastive.gallery.run import name_of
from contrastive.run.files import RunState
from contrastive.study.render.templates.fill import filled
from contrastive.types import Data

N_SHOWN = 40  # images of each kind
FIRST = ("linear_top1", "knn_top1")  # read-outs, in the order in which they are looked for
Images = list[tuple[str, str]]  # (data URI, class)


def pair_page(runs: dict[Path, RunState], *, folders: Sequence[Path] = ()) -> str:
    """The whole document of two finished runs: their results tell which images are right, and nothing is computed.

    Raises:
        ConfigError: they were judged on other images, or have no accuracy in common; or see `run_data`.
    """
    (a, ours), (b, theirs) = runs.items()
    if ours.environment["data"] != theirs.environment["data"]:
        raise ConfigError(f"{a} and {b} were judged on other images: try two runs on the same data")
    bits, others = ours.result.get("correct", {}), theirs.result.get("correct", {})
    common = sorted(bits.keys() & others.keys(), key=lambda name: (name not in FIRST, name != FIRST[0], name))
    if not common:
        raise ConfigError(f"{a} and {b} have no accuracy in common: try two runs with evaluator=[knn,linear]")
    data = run_data(a, ours, folders=folders)
    known = data.test.label.cpu() >= 0
    first, second = (torch.from_numpy(unpack(own[common[0]])) for own in (bits, others))
    kinds = {
        "both right": first & second, "only the first right": first & ~second, "only the second right": second & ~first,
        "both wrong": ~first & ~second & known,
    }  # fmt: skip
    return filled(
        "pair.html",
        charts=None,
        title="Two runs",
        runs=[str(a), str(b)],
        read_out=common[0],
        counts=[["", "images", "%"], *([kind, *_share(mask, int(known.sum()))] for kind, mask in kinds.items())],
        classes=by_class(data, kinds),
        shown={kind: images(data, mask) for kind, mask in kinds.items() if kind != "both right"},
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
