"""The figures of a result by flat names, accuracies of bias groups among them, and the words for a difference of two.
Imports no torch.
"""

from typing import Any

KNN, LINEAR = "knn_top1", "linear_top1"  # what is shown and judged where nothing else is chosen
LOWER_IS_BETTER = ("alignment_uniformity_alignment", "alignment_uniformity_uniformity")
WORST = "worst_group_top1"
OVER_GROUPS = ("aligned_top1", "conflicting_top1", "group_mean_top1", WORST)  # over (class, bias) groups of test images
# failed: there is nothing to judge, for a run broke down
VERDICTS = ("better", "worse", "equal", "undecided", "failed")


def lower_is_better(metric: str) -> bool:
    """Whether the best value of a metric is the lowest; metrics are higher the better unless they are known."""
    return metric.rpartition(":")[2].rpartition("/")[2].partition(" ")[0] in LOWER_IS_BETTER


def group_accuracies(audit: dict[str, Any]) -> dict[str, dict[str, float]]:
    """{read-out: {name: percent right}} over the bias groups of the test images, for every audited read-out."""
    found = {}
    for read_out, own in audit.items():
        if isinstance(own, dict) and read_out != "reported":  # a copy of one of the others
            found[read_out] = {name: own[name] for name in OVER_GROUPS if name in own}
    return {read_out: values for read_out, values in found.items() if values}


def test_figures(result: dict[str, Any]) -> dict[str, float]:
    """Every figure on the test split: `test` of the result, and what its audit says of bias groups.

    `knn_worst_group_top1` stands behind `knn_top1`. At the end come `knn_aligned_top1`, `knn_conflicting_top1`,
    `knn_group_mean_top1` and, of each group, `knn_top1/CLASS/BIAS`; of each class that `class_audit` judged
    `knn_top1/CLASS`.
    """
    audit = result.get("audit", {})
    accuracies = group_accuracies(audit)
    figures: dict[str, float] = {}
    for metric, value in result["test"].items():
        figures[metric] = value
        if (worst := accuracies.get(metric.removesuffix("_top1"), {}).get(WORST)) is not None:
            figures[metric.replace("_top1", f"_{WORST}")] = worst
    figures |= {f"{name}_{key}": value for name, own in accuracies.items() for key, value in own.items()}
    groups = [(f"{group['class']}/{group['bias']}", group["top1"]) for group in audit.get("groups", [])]
    figures |= {f"{name}_top1/{group}": top1[name] for name in accuracies for group, top1 in groups if name in top1}
    names = {str(own["label"]): own["class"] for own in audit.get("classes", [])}
    return figures | {
        f"{name}_top1/{names.get(c, c)}": value
        for name, own in audit.get("by_class", {}).items()
        for c, value in own["top1"].items()
    }


def is_detail(metric: str) -> bool:
    """Whether a table has the figure only when it is asked for: those of bias groups but for the worst one."""
    name = metric.partition(" (")[0]  # without the settings of an evaluator
    return "_top1/" in metric or any(name.endswith(f"_{key}") for key in OVER_GROUPS if key != WORST)


def verdict(low: float | None, high: float | None, *, gap: float = 0.0, margin: float = 0.0) -> str:
    """What an interval of a difference says: that it is above the gap (better), below minus the gap (worse), smaller
    than the margin (equal), or none of these (undecided).

    Args:
        low: its lower end; None where there is no interval.
        high: its upper end.
        gap: what a difference must exceed, such as that of a claim.
        margin: what counts as equal.
    """
    if low is None or high is None:
        return "undecided"
    if low > gap or high < -gap:
        return "better" if low > gap else "worse"
    return "equal" if -margin < low and high < margin else "undecided"
