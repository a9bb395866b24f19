"""Text for a terminal: aligned within its width, in color there alone, foreign text never obeyed."""

import io
from contextlib import redirect_stdout

import pytest

from contrastive.report.grid import Column, Grid
from contrastive.text import columns, counted, format_grid, marked, show

ROWS = [["runs", "knn_top1", "linear_top1"], ["a", "9.00", "10.00"], ["bb", "11.00", "8.00"]]


def figures() -> Grid:
    """ROWS, the best of the first metric bold."""
    names, first, second = Grid.of(ROWS).columns
    return Grid([names, Column(first.head, first.cells, best=[1]), second])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_marked_text_is_colored_on_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with redirect_stdout(terminal):
        show(f"a {marked('good', 'green')} \x1b[31mred")
    assert terminal.getvalue() == "a \x1b[32mgood\x1b[0m \\x1b[31mred\n"
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(terminal):
        show(marked("good", "green"))
    assert terminal.getvalue().endswith("\ngood\n")


def test_a_bar_in_a_name_does_not_break_the_row_of_a_table():
    head, _, row = format_grid([["name", "a|b"], ["x | y", "1"]]).splitlines()
    assert head.replace(r"\|", "").count("|") == row.replace(r"\|", "").count("|") == 3


def test_a_pipe_gets_plain_text_and_a_markdown_table(capsys: pytest.CaptureFixture[str]) -> None:
    show(marked("good", "green"))
    assert capsys.readouterr().out == "good\n"
    assert figures().terminal().startswith("| runs | knn_top1 | linear_top1 |\n|---")


def test_columns_without_room_stand_below_with_the_names(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        show(figures().terminal())
    assert terminal.getvalue().splitlines() == [
        "  runs   knn_top1", "  a          9.00", "  bb     \x1b[1m   11.00\x1b[0m", "",
        "  runs   linear_top1", "  a            10.00", "  bb            8.00",
    ]  # fmt: skip
    assert columns(ROWS).splitlines()[1] == "  a          9.00         10.00"


def test_a_latex_table_has_minus_signs_and_words_to_the_left() -> None:
    cells = [["claim", "verdict", "effect"], ["NT-Xent > a_b", "holds", "-2.5 [-3, 1e-3]"]]
    text = Grid.of(cells).latex(caption="50 %", label="A b")
    assert r"\begin{tabular}{llr}" in text
    assert r"NT-Xent $>$ a\_b & holds & $-$2.5 [$-$3, 1e-3] \\" in text
    assert r"\caption{50 \%}" in text and r"\label{tab:a-b}" in text


def test_what_is_counted_has_its_plural() -> None:
    said = [counted(1, "search"), counted(5, "search"), counted(2, "batch"), counted(9000, "epoch")]
    assert said == ["1 search", "5 searches", "2 batches", "9,000 epochs"]
