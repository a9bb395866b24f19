"""The page of `contrastive show RUN`: what a run learned, and what it gets wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contrastive.evaluator.bias_audit import listed_groups
from contrastive.experiment.summary import metric_rows
from contrastive.experiment.verdict import wilson
from contrastive.gallery.features import Judged, images_judged, judged, plane
from contrastive.gallery.images import spaced, uris
from contrastive.report.collect import runs_record
from contrastive.report.facts import facts
from contrastive.report.page import curves
from contrastive.report.templates.fill import chart_module, filled
from contrastive.run.run import Run
from contrastive.types import Features

N_POINTS, POINT = 1000, 48  # images of the map, and their side in pixels
N_QUERIES, N_WORST = 12, 20
N_CLASSES, N_GROUPS = 40, 40  # of the confusion matrix, at most, and bars
N_MISTAKES = 40  # pairs of class and guess, where the classes are too many for a matrix


def run_page(run: Run, *, device: str = "auto", folders: Sequence[Path] = ()) -> str:
    """The whole document of a finished run.

    Raises:
        ConfigError: see `judged`; or a package that draws charts is not installed.
    """
    charts = chart_module()
    from contrastive.gallery.charts import confusion_chart, groups_chart, map_chart  # late: they need Altair

    found, result = judged(run, device=device, folders=folders), run.result
    record = runs_record({run.path.name: {run.path: run}}, list(result["test"]))
    points = map_points(found)
    groups = group_bars(found, result["audit"].get("groups", []))
    n_classes = len(found.data.classes)
    cells, names = confusion(found) if 0 < n_classes <= N_CLASSES else ([], [])
    return filled(
        "run.html",
        charts=charts,
        title=str(run.path),
        split=images_judged(run),
        facts=facts(record),
        figures=metric_rows(result),
        map=map_chart(points, list(dict.fromkeys(sorted(point["class"] for point in points)))),
        neighbors=neighbors(found),
        confusion=confusion_chart(cells, names) if cells else None,
        mistakes=mistakes(found) if n_classes > N_CLASSES else [],
        n_classes=n_classes,
        groups=groups_chart(lowest(groups)) if groups else None,
        n_groups=len({group["group"] for group in groups}),
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


def guessed(found: Judged) -> Tensor:
    """(C, C) test images of each class (row) that are taken for each class (column)."""
    label, n_classes = found.data.test.label.cpu(), len(found.data.classes)
    known = label >= 0
    matrix = torch.zeros(n_classes, n_classes, dtype=torch.long)
    return matrix.index_put_((label[known], found.guess[known]), torch.tensor(1), accumulate=True)


def confusion(found: Judged) -> tuple[list[dict[str, Any]], list[str]]:
    """(cells of the matrix, its classes with their numbers of test images)."""
    matrix = guessed(found)
    n = matrix.sum(1)
    names = [f"{name} ({int(n[c]):,})" for c, name in enumerate(found.data.classes)]
    cells = [
        {"class": names[c], "guess": names[g], "n": int(matrix[c, g]), "percent": 100 * int(matrix[c, g]) / int(n[c])}
        for c, g in matrix.nonzero().tolist()
    ]
    return cells, names


def mistakes(found: Judged) -> list[list[str]]:
    """The wrong guesses that are made most often, as a grid."""
    matrix, classes = guessed(found), found.data.classes
    wrong = matrix.clone().fill_diagonal_(0)
    rows = []
    for place in wrong.flatten().argsort(descending=True, stable=True)[:N_MISTAKES].tolist():
        c, g = divmod(place, len(classes))
        if n := int(wrong[c, g]):
            rows.append([classes[c], classes[g], f"{n:,}", f"{100 * n / int(matrix[c].sum()):.1f}"])
    return [["class", "guess", "images", "% of the class"], *rows] if rows else []


def group_bars(found: Judged, audited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A bar for each (class, bias) group of test images and read-out: those of the run's audit, else by neighbors."""
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
    return sorted(bars, key=lambda bar: bar["top1"])


def lowest(bars: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first bars of each read-out."""
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
