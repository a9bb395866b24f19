"""The page of figures without labels: its tables are those of the committed records."""

from statistics import mean

import pytest

from studies.label_free import label_free
from studies.label_free.label_free import Choice, Figure

pytest.importorskip("scipy", reason="an extra: try pip install '.[report]'")


def run(knn: float, **curves: float) -> label_free.Run:
    figures = {"knn_top1": knn, "linear_top1": knn}
    return {"val": figures, "test": figures, "curves": {key: {"value": [0.0, value]} for key, value in curves.items()}}


def test_the_table_of_the_page_is_that_of_the_records() -> None:
    found = label_free.choices()
    assert sum(len(own.points) for own in found) == 424
    page = label_free.PAGE.read_text()
    renewed = label_free.renewed(page, label_free.chosen_table(found))
    assert renewed == page, "python studies/label_free/label_free.py renews them"


def test_the_regret_is_what_is_lost_against_the_choice_by_labels() -> None:
    top1, loss = Figure("top1", label_free.last("top1"), 1), Figure("loss", label_free.last("loss"), -1)
    runs = run(40, top1=0.2, loss=3), run(50, top1=0.9, loss=2), run(45, top1=0.5, loss=1)
    found = [Choice("push_search", "nt_xent", [label_free.point({}, [own]) for own in runs])]
    ((point, regret),) = label_free.regrets(found, top1).values()
    assert point is label_free.by_labels(found[0]) and regret == 0
    ((point, regret),) = label_free.regrets(found, loss).values()
    assert (point.test, regret) == (45, 5)
    assert label_free.at_random(found[0]) == pytest.approx(50 - mean([40, 50, 45]))
    assert label_free.correlation(found[0], top1) == pytest.approx(1)
