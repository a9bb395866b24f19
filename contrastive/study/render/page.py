"""Write one HTML file with tables, claims and curves; it needs no network and no server.

RUN_OR_TABLE is the JSON that make reproduce-table writes beside its Markdown, the folder of a table's runs, or any
folder with finished runs. --metric chooses the columns of runs; a table has its own.

    contrastive page page.html outputs outputs/table/digits.json
"""

import argparse
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from contrastive.config.arguments import html_file
from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.study.collect import section_record
from contrastive.study.curves import method_and_setting, read_series, read_sweeps
from contrastive.study.frame import add_metrics, read_frame
from contrastive.study.judge import judge_claims
from contrastive.study.palette import colors_of
from contrastive.study.record import read_record
from contrastive.study.render import comparison, datasets, effects
from contrastive.study.render.claims import LEGEND, claims_grid
from contrastive.study.render.markdown import best_figures, facts, grid, protocols, split
from contrastive.study.render.sentences import sentences
from contrastive.study.render.templates.fill import chart_module, filled
from contrastive.text import show
from contrastive.verdict import VERDICTS

Record = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", nargs="?", type=html_file, metavar="OUT.html", help="the file to write")
    parser.add_argument("paths", nargs="*", type=Path, metavar="RUN_OR_TABLE", help="runs, folders of runs, or tables")
    add_metrics(parser)
    parser.add_argument("--static", action="store_true", help="draw the charts now, one metric each: no script inside")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.paths:
        raise ConfigError("a page needs a file to write and runs to show: try contrastive page page.html outputs")
    records, left_out = read_sources(arguments.paths, arguments.metric)
    write_text(arguments.out, page(records, static=arguments.static))
    for sentence in left_out:
        show(sentence, file=sys.stderr)
    size = arguments.out.stat().st_size / 2**20
    print(f"{arguments.out}: {len(records)} table{'' if len(records) == 1 else 's'}, {size:.1f} MB")
    return 0


def read_sources(paths: list[Path], metrics: list[str] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables among the paths in their order, then everything else as tables of runs.

    Args:
        paths: a table's JSON, the folder of its runs, or any folder with finished runs.
        metrics: the columns of finished runs; None = the usual ones. A table has its own.

    Returns:
        the records, and a sentence for each path or run that is left out.

    Raises:
        ConfigError: a path does not exist, no run has a metric, or nothing is left to show.
    """
    tables, folders, left_out = [], [], []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path} does not exist: try python -m contrastive report page OUT.html outputs")
        file = path if path.is_file() else path.parent / f"{path.name}.json"
        if not file.exists():
            folders.append(path)
        elif (record := read_record(file)) is not None:
            tables.append(record)
        else:
            left_out.append(f"{path} holds no table and is left out")
    if folders:
        frame = read_frame(folders)
        chosen = frame.chosen(metrics) if metrics else []
        for section in frame.sections.values():
            tables.append(section_record(section, [m for m in chosen if m in section.metrics] or section.chosen(None)))
        left_out += frame.notes
    if not tables:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return tables, left_out


def page(records: list[Record], *, static: bool = False) -> str:
    """The whole document; a static one has no menus and runs no script.

    Args:
        records: of tables, and of comparisons over data sets, whose tables follow them.

    Raises:
        ConfigError: a package that draws it is not installed.
    """
    charts, titles = chart_module(), [record["title"] for record in records]
    over = [record for record in records if "datasets" in record]
    tables = [one for record in records for one in (record["datasets"].values() if "datasets" in record else [record])]
    return filled(
        "page.html",
        charts=charts,
        static=static,
        title=" · ".join(titles) if len(titles) < 3 else "Results",
        over=[verdict_section(record, charts) for record in over],
        sections=[section(record, charts) for record in tables],
        datasets=list(dict.fromkeys(dataset_of(record) for record in tables)),
        claims_legend=LEGEND,
        verdicts=VERDICTS,
    )


def verdict_html(record: Record) -> str:
    """The sentences, forest and effects of a comparison, on one data set or over several: a part of a document.

    Raises:
        ConfigError: a package that draws it is not installed.
    """
    charts = chart_module()
    own = verdict_section(record, charts)
    return filled("verdict.html", charts=charts, static=True, own=own, verdicts=VERDICTS)


def verdict_section(record: Record, charts: ModuleType) -> dict[str, Any]:
    """What the template shows of the verdicts of a comparison, on one data set or over several."""
    if "datasets" in record:
        return {
            "title": record["title"], "sentences": datasets.sentences(record), "forest": None,
            "effects": datasets.grid(record), "legend": datasets.LEGEND, "images": [], "notes": datasets.looks(record),
            "protocol": "", "command": datasets.command(record),
        }  # fmt: skip
    claims = effects.forest_claims(record)
    return {
        "title": record["title"],
        "sentences": sentences(record),
        "forest": charts.claims_chart(claims) if claims else None,
        "ticks": comparison.TICKS,
        "effects": effects.effects(record),
        "legend": comparison.LEGEND,
        "images": effects.alone_right(record),
        "notes": comparison.notes(record),
        "protocol": comparison.protocol_text(record),
        "command": comparison.command(record),
    }


def section(record: Record, charts: ModuleType) -> dict[str, Any]:
    """What the template shows of one table."""
    judged = judge_claims(record)
    counts = {word: sum(claim["verdict"] == word for claim in judged) for word in VERDICTS}
    return {
        "title": record["title"],
        "dataset": dataset_of(record),
        "colors": row_colors(record),
        "missing": missing_runs(record),
        "preset": record["preset"],
        "note": record["note"],
        "facts": facts(record),
        "figures": grid(record),
        "best": best_figures(record),
        "split": split(record),
        "claims": claims_grid(record) if judged else [],
        "comparison": comparison_section(record, charts) if "comparison" in record else None,
        "counts": {word: n for word, n in counts.items() if n or word not in ("equal", "failed")},
        "has_published_effect": any(claim["published_effect"] is not None for claim in judged),
        "differences": differences(record),
        "protocols": [line.removeprefix("- ") for line in protocols(record).splitlines()],
        **section_charts(record, judged, charts),
    }


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


def missing_runs(record: Record) -> list[str]:
    """Rows without a run, and seeds that other rows of the table have; quoted rows are never run. A comparison says
    itself which of its runs failed, and its default settings have no more than the seeds of the first search."""
    rows = [row for row in record["rows"] if row["overrides"] and "comparison" not in record]
    seeds = {row["name"]: {run["seed"] for run in row["runs"]} for row in rows}
    # of most rows: a single row may have been given more
    counts = [seed for own in seeds.values() for seed in own]
    usual = {seed for seed in counts if 2 * counts.count(seed) > len([own for own in seeds.values() if own])}
    lacking = {name: sorted(usual - own) for name, own in seeds.items()}
    return [
        name if not seeds[name] else f"{name}, seed {', '.join(map(str, lacking[name]))}"
        for name in seeds
        if not seeds[name] or lacking[name]
    ]


def comparison_section(record: Record, charts: ModuleType) -> dict[str, Any]:
    """What the template shows of a comparison."""
    methods = [own["name"] for own in record["comparison"]["plan"]["contestants"]]
    points = comparison.knob_points(record)
    knobs = list(dict.fromkeys(point["knob"] for point in points))
    return {
        **verdict_section(record, charts),
        "chosen": comparison.chosen(record),
        "knobs": [charts.knob_chart([p for p in points if p["knob"] == knob], methods) for knob in knobs],
    }


def section_charts(record: Record, judged: list[dict[str, Any]], charts: ModuleType) -> dict[str, Any]:
    """The charts of a table: {name: chart, or None without data}; of sweeps one for each setting."""
    rows = [row for row in record["rows"] if row["runs"] or row["published_curves"]]
    methods = list(dict.fromkeys(method_and_setting(row, record)[0] for row in rows))
    known = [{**c, "metric": record["metrics"][c["metric"]]} for c in judged if c["effect"] is not None]
    series = read_series(record)
    # test metrics first: training losses say nothing about each other
    keys = sorted(dict.fromkeys(s.key for s in series if len(s.epoch) > 2), key=lambda key: not key.startswith("test/"))
    shown = [s for s in series if s.key in keys]
    sweeps: dict[str, list[dict[str, Any]]] = {}
    for entry in read_sweeps(record):
        sweeps.setdefault(entry["setting"], []).append(entry)
    return {
        "effects": charts.claims_chart(known) if known else None,
        "sweeps": [charts.sweep_chart(entries, methods, record["metrics"]) for entries in sweeps.values()],
        "curves": charts.curves_chart(shown, methods, keys) if keys else None,
        "has_published_curve": any(s.published for s in shown),
    }


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
