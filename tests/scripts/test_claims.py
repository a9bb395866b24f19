"""The claims of a table as a grid, beside what was published."""

from typing import Any

from tables.claims import claims_grid, judge_claims

from tests.report.test_judging import record


def grid(one: dict[str, Any]) -> list[list[str]]:
    return claims_grid(one, judge_claims(one)).cells


def test_a_line_names_what_both_rows_share_once_and_has_the_published_effect():
    head, line = grid(record([10.0, 50.0, 90.0], [9.0, 49.1, 89.0], gap=0.5))
    assert head == [
        "claim", "verdict", "effect [95 % interval]", "metric", "n", "over", "p (Holm)", "gap", "published", "source",
    ]  # fmt: skip
    assert line[:2] == ["A > B (x)", "better"]
    assert line[2].startswith("+0.97 [+0.82, +1.11]")
    assert (line[3], line[7:]) == ("kNN", ["0.5", "+2.50", "paper"])


def test_of_another_setting_the_published_effect_says_so():
    small = {**record([10.0, 50.0], [9.0, 49.1]), "preset": "small"}
    assert "published (other setting)" in grid(small)[0]
    assert "gap" not in grid(small)[0]
