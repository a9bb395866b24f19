"""The page of `contrastive show RUN`: what a run learned, and what it gets wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.config.compose import importable
from contrastive.config.targets import check_targets
from contrastive.config.words import DATASET_PATHS
from contrastive.errors import ConfigError
from contrastive.evaluator.bias_audit import listed_groups
from contrastive.evaluator.knn import KNN, at_most_a_tenth, nearest, vote
from contrastive.experiment.components import load_data
from contrastive.experiment.encoder import open_encoder
from contrastive.experiment.machine import start_device
from contrastive.experiment.summary import metric_rows, wilson
from contrastive.gallery.images import spaced, uris
from contrastive.report.collect import runs_record
from contrastive.report.facts import facts
from contrastive.report.page import chart_module, curves, filled
from contrastive.run.run import Run
from contrastive.training.features import extract
from contrastive.training.precision import Normalize
from contrastive.training.progress import announced
from contrastive.types import Data, Features, count_pairs, unit

N_POINTS, POINT = 1000, 48  # images of the map, and their side in pixels
N_QUERIES, N_NEIGHBORS, N_WORST = 12, 10, 20
N_CLASSES, N_GROUPS = 100, 40  # of the confusion matrix, at most, and bars


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The test images of a run by its nearest neighbors.

    Attributes:
        h: (N, F) features of the test images, on the CPU.
        neighbors: (N, at most 10) training images with the nearest features, rows of `data.pretrain`.
        share: (N, C) of the neighbors' votes by class, as the evaluator `knn` of the run counts them; C = 0 without
            labels.
    """

    data: Data
    h: Tensor
    neighbors: Tensor
    share: Tensor

    @property
    def guess(self) -> Tensor:
        """(N,) class of the most votes."""
        return self.share.argmax(1)

    @property
    def wrong(self) -> Tensor:
        """(n,) test images with a label that is not the guess; fewest votes for the label first."""
        label = self.data.test.label.cpu()
        rows = ((label >= 0) & (self.guess != label)).nonzero().squeeze(1)
        return rows[self.share[rows, label[rows]].argsort(stable=True)]


def run_page(run: Run, *, device: str = "auto", folders: Sequence[Path] = ()) -> str:
    """The whole document of a finished run.

    Raises:
        ConfigError: see `judged`; or a package that draws charts is not installed.
    """
    charts = chart_module()
    from contrastive.gallery.charts import confusion_chart, groups_chart, map_chart  # late: they need Altair

    found, result = judged(run, device=device, folders=folders), run.result
    record = runs_record({run.path.name: {run.path: run}}, list(result["test"]))
    points, n_classes = map_points(found), len(found.data.classes)
    groups = group_bars(found, result["audit"].get("groups", []))
    return filled(
        "run.html",
        charts=charts,
        title=str(run.path),
        split="test images" if run.config["held_out"] is None else "held-out training images",
        facts=facts(record),
        figures=metric_rows(result),
        map=map_chart(points, list(dict.fromkeys(sorted(point["class"] for point in points)))),
        neighbors=neighbors(found),
        confusion=confusion_chart(*confusion(found)) if 0 < n_classes <= N_CLASSES else None,
        n_classes=n_classes,
        groups=groups_chart(groups) if groups else None,
        n_bars=N_GROUPS,
        worst=worst(found),
        curves=curves(record, charts)["curves"],
    )


def map_points(found: Judged) -> list[dict[str, Any]]:
    """A point for each of evenly spaced test images."""
    rows = spaced(torch.arange(len(found.h)), N_POINTS)
    split, data = found.data.test.select(rows.to(found.data.test.label.device)), found.data
    images = uris(split, torch.arange(len(rows)), POINT)
    points: list[dict[str, Any]] = [
        {"class": name_of(c, data.classes), "image": uri} for c, uri in zip(split.label.tolist(), images, strict=True)
    ]
    for i, (point, (x, y)) in enumerate(zip(points, plane(found.h[rows]).tolist(), strict=True)):
        point |= {"x": round(x, 4), "y": round(y, 4)}
        if data.classes:
            point["guess"] = data.classes[int(found.guess[rows[i]])]
        if split.bias is not None:
            point["bias"] = name_of(int(split.bias[i]), data.biases)
    return points


def name_of(number: int, names: Sequence[str]) -> str:
    """The name of a class or a bias."""
    return names[number] if 0 <= number < len(names) else "no label" if number < 0 else str(number)


def neighbors(found: Judged) -> list[dict[str, Any]]:
    """Test images with the nearest training images: {image, title, near: [(uri, title, whether of another class)]}."""
    test, train, classes = found.data.test, found.data.pretrain, found.data.classes
    shown = []
    for row in spaced(torch.arange(len(found.h)), N_QUERIES).tolist():
        near = found.neighbors[row]
        label, labels = int(test.label[row]), train.label[near.to(train.label.device)].tolist()
        shown.append({
            "image": uris(test, torch.tensor([row]))[0], "title": name_of(label, classes),
            "near": [
                (uri, name_of(c, classes), bool(classes) and c != label)
                for uri, c in zip(uris(train, near), labels, strict=True)
            ],
        })  # fmt: skip
    return shown


def confusion(found: Judged) -> tuple[list[dict[str, Any]], list[str]]:
    """(cells of the matrix, its classes with their numbers of test images)."""
    label, n_classes = found.data.test.label.cpu(), len(found.data.classes)
    known = label >= 0
    matrix = count_pairs(label[known], found.guess[known], n_classes, n_classes)
    n = matrix.sum(1)
    names = [f"{name} ({int(n[c]):,})" for c, name in enumerate(found.data.classes)]
    cells = [
        {"class": names[c], "guess": names[g], "n": int(matrix[c, g]), "percent": 100 * int(matrix[c, g]) / int(n[c])}
        for c, g in matrix.nonzero().tolist()
    ]
    return cells, names


def group_bars(found: Judged, audited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lowest (class, bias) groups of test images by each read-out: those of the run's audit, else by neighbors."""
    data = found.data
    if data.test.bias is None or not data.classes:
        return []
    if not audited:
        test = Features(found.h, data.test.label.cpu(), data.test.bias.cpu())
        audited = listed_groups({"knn": found.guess}, test, data.classes, data.biases)
    bars = [
        {"group": f"{own['class']}, {own['bias']} ({own['n']:,})", "n": own["n"], "read_out": read_out, "top1": top1,
         **dict(zip(("low", "high"), wilson(top1, own["n"]), strict=True))}
        for own in audited for read_out, top1 in own["top1"].items()
    ]  # fmt: skip
    bars.sort(key=lambda bar: bar["top1"])
    names = dict.fromkeys(bar["read_out"] for bar in bars)
    return [bar for name in names for bar in [own for own in bars if own["read_out"] == name][:N_GROUPS]]


def worst(found: Judged) -> list[tuple[str, str]]:
    """(image, `class → guess (share of votes)`) of the test images whose own class has the fewest votes."""
    data, rows = found.data, found.wrong[:N_WORST] if found.data.classes else torch.tensor([], dtype=torch.long)
    said = [
        f"{data.classes[int(data.test.label[row])]} → {data.classes[guess := int(found.guess[row])]} "
        f"({100 * float(found.share[row, guess]):.0f} %)"
        for row in rows.tolist()
    ]
    return list(zip(uris(data.test, rows), said, strict=True))


def run_data(run: Run, *, folders: Sequence[Path] = ()) -> Data:
    """The data of a run.

    Args:
        folders: of modules that the configuration may name.

    Raises:
        ConfigError: they are not there, are others than those that the run was judged on, or the configuration names
            something that is no dataset.
    """
    node = run.config["dataset"]
    with importable(folders):
        check_targets({"dataset": node}, folders)
        data, data_hash, _ = load_data(node, run.config["held_out"])
    if data_hash != run.environment["data"]:
        places = [key for key in DATASET_PATHS if key != "dataset.cache" and node.get(key.removeprefix("dataset."))]
        elsewhere = f"{places[0]}=PATH, where the same images are, or " if places else ""
        raise ConfigError(f"the data of {run.path} changed since it ran: try {elsewhere}its command with rerun=true")
    return data


def judged(run: Run, *, device: str = "auto", folders: Sequence[Path] = ()) -> Judged:
    """Encode the images of a run, and let their neighbors vote.

    Args:
        folders: as of `run_data`.

    Raises:
        ConfigError: the weights are gone, or see `run_data`.
    """
    data, chosen = run_data(run, folders=folders), start_device(device)
    encoder, transform = open_encoder(run.path, folders)
    encoder, normalize = encoder.to(chosen), Normalize(transform.mean, transform.std, device=chosen)
    rows = (data.pretrain.label.cpu() >= 0).nonzero().squeeze(1) if data.classes else torch.arange(len(data.pretrain))
    with announced("encoding the images"):
        bank, test = extract(encoder, data.pretrain, normalize, rows), extract(encoder, data.test, normalize)
    node = run.config["evaluator"].get("knn", {})
    knn = KNN(**{key: node[key] for key in ("k", "temperature") if key in node})
    k = at_most_a_tenth(knn.k, bank)
    similarity, index = (found.cpu() for found in nearest(bank.h, test.h, min(max(k, N_NEIGHBORS), len(rows))))
    share = torch.zeros(len(test.h), 0)
    if data.classes:
        label = bank.label.cpu()[index[:, :k]]
        votes = vote(similarity[:, :k], label, n_classes=len(data.classes), temperature=knn.temperature)
        share = votes / votes.sum(1, keepdim=True)
    return Judged(data=data, h=test.h.cpu(), neighbors=rows[index[:, :N_NEIGHBORS]], share=share)


def plane(h: Tensor) -> Tensor:
    """(N, 2), the principal components of features (N, F) scaled to length 1."""
    x = unit(h.double())
    x = x - x.mean(0)
    xy = x @ torch.linalg.svd(x, full_matrices=False).Vh[:2].T
    return F.pad(xy, (0, 2 - xy.shape[1]))  # a single image has one component
