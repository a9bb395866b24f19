"""Write one HTML file with the figures and curves of finished runs; it needs no network and no server.

FOLDER is any folder with finished runs. --metric chooses the columns.

    python -m contrastive page page.html outputs
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from contrastive.config.arguments import Parser, answering, html_file
from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.report.collect import section_record
from contrastive.report.curves import colors_of, method_and_setting, read_series
from contrastive.report.facts import facts, protocols, record_grid, split_of
from contrastive.report.frame import add_metrics, read_frame
from contrastive.report.grid import Grid
from contrastive.run.figures import VERDICTS
from contrastive.text import counted, show

Record = dict[str, Any]


@answering
def main(words: list[str]) -> int:
    """Write the page, print its path; returns the exit code."""
    parser = Parser("page", __doc__)
    parser.add_argument("out", type=html_file, metavar="OUT.html", help="the file to write")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders of finished runs")
    add_metrics(parser)
    parser.add_argument("--static", action="store_true", help="draw the charts now, one metric each: no script inside")
    arguments = parser.parse_args(words)
    records, notes = runs_records(arguments.folders, arguments.metric)
    charts = chart_module()
    text = document([section(record, charts) for record in records], charts, static=arguments.static)
    write_text(arguments.out, text)
    for sentence in notes:
        show(sentence, file=sys.stderr)
    size = arguments.out.stat().st_size / 2**20
    print(f"{arguments.out}: {counted(len(records), 'table')}, {size:.1f} MB")
    return 0


def runs_records(folders: list[Path], metrics: list[str] | None = None) -> tuple[list[Record], list[str]]:
    """A record for each dataset of the finished runs below the folders, and a sentence for each that is left out.

    Args:
        metrics: the columns; None = the usual ones.

    Raises:
        ConfigError: a path is no folder, no run has a metric, or no run is finished.
    """
    if file := next((path for path in folders if path.is_file()), None):
        raise ConfigError(f"{file} is no folder of runs: try the page that was written beside it")
    frame = read_frame(folders)
    chosen = frame.chosen(metrics) if metrics else []
    sections = frame.sections.values()
    records = [section_record(own, [m for m in chosen if m in own.metrics] or own.chosen(None)) for own in sections]
    return records, frame.notes


def document(
    sections: Sequence[Record], charts: ModuleType, *, static: bool = False, over: Sequence[Record] = ()
) -> str:
    """The whole document; a static one has no menus and runs no script.

    Args:
        sections: see `section`.
        over: what the template shows of verdicts over several of them.
    """
    titles = [own["title"] for own in [*over, *sections]]
    return filled(
        "page.html",
        charts=charts,
        static=static,
        title=" · ".join(titles) if len(titles) < 3 else "Results",
        over=over,
        sections=sections,
        datasets=list(dict.fromkeys(own["dataset"] for own in sections)),
        verdicts=VERDICTS,
    )


def section(record: Record, charts: ModuleType, figures: Grid | None = None) -> Record:
    """What the template shows of the runs of a record; of verdicts, claims and sweeps nothing.

    Args:
        figures: the table; None = `record_grid`.
    """
    return {
        "title": record["title"],
        "dataset": dataset_of(record),
        "colors": row_colors(record),
        "preset": record["preset"],
        "note": record["note"],
        "facts": facts(record),
        "figures": figures or record_grid(record),
        "split": split_of(record["metrics"]).capitalize(),
        "differences": differences(record),
        "protocols": [line.removeprefix("- ") for line in protocols(record).splitlines()],
        **curves(record, charts),
    }


def curves(record: Record, charts: ModuleType) -> dict[str, Any]:
    """The chart of the curves, None without any."""
    series = read_series(record)
    # test metrics first: training losses say nothing about each other
    keys = sorted(dict.fromkeys(s.key for s in series if len(s.epoch) > 2), key=lambda key: not key.startswith("test/"))
    shown = [s for s in series if s.key in keys]
    return {
        "curves": charts.curves_chart(shown, methods_of(record), keys) if keys else None,
        "has_published_curve": any(s.published for s in shown),
    }


def methods_of(record: Record) -> list[str]:
    """The methods that have a curve or a figure, each once."""
    rows = [row for row in record["rows"] if row["runs"] or row["published_curves"]]
    return list(dict.fromkeys(method_and_setting(row, record)[0] for row in rows))


def dataset_of(record: Record) -> str:
    """The data set that most runs of a table trained on."""
    names = [run["settings"].get("dataset", "") for row in record["rows"] for run in row["runs"]]
    words = [re.sub(r"^image_folder\b.*\bname=(\S+).*", r"\1", name).partition(" ")[0] for name in names]
    return max(words, key=words.count) if words else "not run"


def row_colors(record: Record) -> dict[str, str]:
    """{row: the color of its method}, as in the table's charts."""
    rows = {row["name"]: method_and_setting(row, record)[0] for row in record["rows"] if row["runs"]}
    colors = colors_of(list(dict.fromkeys(rows.values())))
    return {name: colors[method] for name, method in rows.items()}


def differences(record: Record) -> dict[str, Any]:
    """The settings in which rows differ, as typed for train.py: a grid, and the overrides that every row has."""
    rows = [row for row in record["rows"] if row["overrides"]]
    common = set.intersection(*(set(row["overrides"]) for row in rows)) if rows else set()
    own = {row["name"]: {key_of(w): w for w in row["overrides"] if w not in common} for row in rows}
    keys = list(dict.fromkeys(key for words in own.values() for key in words))
    lines = [
        [name, *(words.get(key, "").partition("=")[2] or words.get(key, "") for key in keys)]
        for name, words in own.items()
    ]
    return {"grid": [["method", *keys], *lines] if keys else [], "common": " ".join(sorted(common))}


def needed(module: str) -> ModuleType:
    """What only pages import.

    Raises:
        ConfigError: a package of `report` is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"a page needs {error.name}, which is missing: try pip install -e '.[report]'") from None


def chart_module() -> ModuleType:
    """`report.charts`, which is slow to import; raises what `needed` does."""
    return needed("contrastive.report.charts")


def filled(template: str, *, charts: ModuleType | None, static: bool = False, **values: Any) -> str:
    """A whole document.

    Args:
        charts: `chart_module()`; None = the page has no charts.
        static: charts are drawn now, and no script runs.
        values: what the template shows, besides that.

    Raises:
        ConfigError: the package that fills templates is not installed.
    """
    jinja2: Any = needed("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("contrastive.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    own = {"verdicts": (), **values}
    library = "" if static or charts is None else charts.javascript()
    svg = None if charts is None else charts.svg
    return str(environment.get_template(template).render(static=static, library=library, svg=svg, **own))
