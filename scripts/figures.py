"""Draw the papers' figures as PDF and PNG, with a CSV beside each.

    python scripts/figures.py curves OUT TABLE.json [--metric train/loss --metric ...]    over epochs
    python scripts/figures.py curves OUT NAME=RUN NAME=RUN ...                      the same of any finished runs
    python scripts/figures.py sweep OUT TABLE.json --over tau_plus [--metric knn_top1]    accuracy over a setting
    python scripts/figures.py tsne OUT NAME=RUN NAME=RUN NAME=RUN [--by bias]       t-SNE maps side by side

TABLE.json is what make reproduce-table writes. A NAME given to several runs makes them seeds of one curve.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.embedding import tsne_map
from contrastive.report.figures import draw_curves, draw_maps, draw_sweep
from contrastive.report.series import Series, read_series, read_sweeps
from contrastive.report.sources import named_runs, runs_record
from contrastive.tables.page import read_table_json


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    curves, sweep, tsne = (commands.add_parser(name) for name in ("curves", "sweep", "tsne"))
    for command in (curves, sweep, tsne):
        command.add_argument("out", type=Path, metavar="OUT")
    curves.add_argument("sources", nargs="+", metavar="TABLE.json or NAME=RUN")
    curves.add_argument(
        "--metric",
        action="append",
        help="as logged in metrics.jsonl, test/knn_top1 unless given; again for more panels",
    )
    curves.add_argument("--setting", help="only the rows with this setting, such as 'noise 0.3' or 'rho 0.99'")
    sweep.add_argument("table", type=Path, metavar="TABLE.json")
    sweep.add_argument("--over", required=True, help="a setting of the table's grid")
    sweep.add_argument("--metric", default="knn_top1", help="a metric of the table")
    tsne.add_argument("sources", nargs="+", metavar="NAME=RUN")
    tsne.add_argument("--by", default="class", choices=["class", "bias"])
    try:
        paths = draw(parser.parse_args())
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written: {', '.join(map(str, paths))}")
    return 0


def draw(arguments: argparse.Namespace) -> list[Path]:
    """Draw what the command asks for; returns the files."""
    if arguments.command == "curves":
        series = read_all_series(arguments.sources)
        chosen = [s for s in series if arguments.setting in (None, s.setting)]
        return draw_curves(chosen, arguments.metric or ["test/knn_top1"], arguments.out)
    if arguments.command == "sweep":
        sweeps = read_sweeps(read_record(arguments.table))
        return draw_sweep(sweeps, arguments.over, arguments.metric, arguments.out)
    runs = named_runs(arguments.sources)
    return draw_maps({name: tsne_map(paths[0]) for name, paths in runs.items()}, arguments.out, by=arguments.by)


def read_all_series(sources: list[str]) -> list[Series]:
    """The curves of one table, or of named runs."""
    if len(sources) == 1 and sources[0].endswith(".json"):
        return read_series(read_record(Path(sources[0])))
    return read_series(runs_record(named_runs(sources), []))


def read_record(path: Path) -> dict[str, Any]:
    """The record of a table."""
    record = read_table_json(path) if path.exists() else None
    if record is None:
        raise ConfigError(f"{path} is no table's JSON: try make reproduce-table, which writes one")
    return record


if __name__ == "__main__":
    sys.exit(main())
