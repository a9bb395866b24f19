"""Rows of a figure have colors and markers of their own, in their order."""

from plot import MARKERS, marker_of

from contrastive.report.curves import COLORS, colors_of


def test_rows_of_a_figure_differ_and_keep_their_colors_as_rows_are_added() -> None:
    names = [f"row {i}" for i in range(len(COLORS))]
    found = colors_of(names)
    assert list(found) == names
    assert len(set(found.values())) == len(COLORS)
    assert colors_of(names[:3]) == {name: found[name] for name in names[:3]}
    assert colors_of(["a", "b", "a"]) == {"a": COLORS[0], "b": COLORS[1]}
    assert colors_of([*names, "one more"])["one more"] == COLORS[0]


def test_print_without_color_tells_ten_rows_apart() -> None:
    assert len({marker_of(color) for color in COLORS[: len(MARKERS)]}) == len(MARKERS)
