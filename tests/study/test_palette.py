"""A method has one color in every figure."""

import pytest

from contrastive.study.palette import COLORS, METHODS, colors_of, marker_of, shades


def test_a_method_has_one_color_whatever_stands_beside_it() -> None:
    alone = colors_of(["debiased_pos"])["debiased_pos"]
    assert colors_of(["nt_xent", "kcl", "debiased_pos"])["debiased_pos"] == alone
    assert colors_of(["Debiased positives", "Debiased negatives"])["Debiased positives"] == alone
    assert colors_of(["debiased_pos tau_plus=0.05 epochs=3"]) == {"debiased_pos tau_plus=0.05 epochs=3": alone}


def test_rows_of_a_figure_differ() -> None:
    names = ["NT-Xent", "NT-Xent, pushed", "NT-Xent, their factor", "mine", "Debiased positives", "yours"]
    found = colors_of(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert len({marker_of(color) for color in found.values()}) == len(names)


def test_a_second_row_of_a_method_is_a_shade_of_its_color() -> None:
    found = colors_of(["Debiased positives, t 0.5", "Debiased positives, tuned", "NT-Xent, pushed"])
    assert found["Debiased positives, tuned"] in shades(found["Debiased positives, t 0.5"])[1:]
    assert found["NT-Xent, pushed"] == colors_of(["NT-Xent, pushed"])["NT-Xent, pushed"]


def test_a_method_comes_before_a_stranger() -> None:
    first = COLORS[0]
    assert colors_of(["mine", "nt_xent"])["nt_xent"] == first


def test_more_names_than_colors_repeat_them() -> None:
    assert len(colors_of([f"row {i}" for i in range(60)])) == 60


@pytest.mark.parametrize("color", METHODS.values())
def test_every_color_is_of_the_palette(color: str) -> None:
    assert color in COLORS
