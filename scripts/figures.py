"""Draw the papers' figures as PDF and PNG, with a CSV beside each.

    python scripts/figures.py curves OUT TABLE.json [--metric train/loss --metric ...]    over epochs
    python scripts/figures.py curves OUT NAME=RUN NAME=RUN ...                      the same of any finished runs
    python scripts/figures.py sweep OUT TABLE.json --over tau_plus [--metric knn_top1]    accuracy over a setting
    python scripts/figures.py tsne OUT NAME=RUN NAME=RUN NAME=RUN [--by bias]       t-SNE maps side by side

TABLE.json is what make reproduce-table writes. A NAME given to several runs makes them seeds of one curve.
"""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plot import add_legend, marker_of, new_figure, plot_mean, write_figure
from tables.sweeps import read_sweeps

from contrastive.config.targets import find_component
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.report.collect import runs_record
from contrastive.report.curves import COLORS, Series, colors_of, label, read_series
from contrastive.report.record import read_record
from contrastive.run.files import read_config
from contrastive.run.run import read_run

MAX_IMAGES = 1000  # of a map


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
        sweeps = read_sweeps(table_of(arguments.table))
        return draw_sweep(sweeps, arguments.over, arguments.metric, arguments.out)
    runs = named_runs(arguments.sources)
    return draw_maps({name: tsne_map(paths[0]) for name, paths in runs.items()}, arguments.out, by=arguments.by)


def read_all_series(sources: list[str]) -> list[Series]:
    """The curves of one table, or of named runs."""
    if len(sources) == 1 and sources[0].endswith(".json"):
        return read_series(table_of(Path(sources[0])))
    rows = {}
    for name, paths in named_runs(sources).items():
        states = {path: read_run(path) for path in paths}
        if reason := next((state.reason for state in states.values() if state.kind != "finished"), ""):
            raise ConfigError(reason)
        by_seed = {state.config["seed"]: path for path, state in states.items()}
        rows[name] = {path: states[path] for path in by_seed.values()}
    return read_series(runs_record(rows, []))


def named_runs(words: list[str]) -> dict[str, list[Path]]:
    """`NAME=RUN` or `RUN` as {name: runs}; a name given several times collects seeds. Paths may contain `=`.

    Raises:
        ConfigError: a word is neither.
    """
    rows: dict[str, list[Path]] = {}
    for word in words:
        splits = [(word[:i], Path(word[i + 1 :])) for i, letter in enumerate(word) if letter == "="]
        candidates = [("/".join(Path(word).parts[-3:-1]) or word, Path(word)), *splits]
        name, path = next(((n, p) for n, p in candidates if (p / "result.json").exists()), (None, None))
        if name is None or path is None:
            raise ConfigError(f"{word} is no finished run: try NAME=RUN with a directory that holds result.json")
        rows.setdefault(name, []).append(path)
    return rows


def table_of(path: Path) -> dict[str, Any]:
    """The record of a table."""
    record = read_record(path) if path.exists() else None
    if record is None:
        raise ConfigError(f"{path} is no table's JSON: try make reproduce-table, which writes one")
    return record


def draw_curves(series: Sequence[Series], keys: Sequence[str], out: Path) -> list[Path]:
    """Logged metrics over epochs, a panel for each and each setting: mean and ± std over seeds; published ones dashed.

    Raises:
        ConfigError: no run has a curve of a metric.
    """
    curves = [s for s in series if len(s.epoch) > 1]
    for key in keys:
        if not any(s.key == key and not s.published for s in curves):
            known = sorted({s.key for s in curves if not s.published})
            raise ConfigError(
                f"no run has a curve of {key}: try --metric with one of {', '.join(known) or 'another table'}"
            )
    chosen = [s for key in keys for s in curves if s.key == key]
    methods = list(dict.fromkeys(s.method for s in chosen))
    colors = colors_of(methods)
    places = list(dict.fromkeys((s.key, s.setting) for s in chosen))
    figure, panels = new_figure(len(places))
    for panel, (key, setting) in zip(panels, places, strict=True):
        several = len({place[1] for place in places}) > 1
        panel.set(title=setting or ("plain" if several else ""), xlabel="epoch", ylabel=label(key))
        own = [s for s in chosen if (s.key, s.setting) == (key, setting)]
        for s in sorted(own, key=lambda s: not s.published):
            color = colors[s.method]
            if s.published:
                panel.plot(s.epoch, s.mean, "--", color=color, linewidth=1, alpha=0.7, label=f"{s.method}, published")
                continue
            plot_mean(panel, s.epoch, s.mean, s.std, color=color, name=named(s.method, s.n))
    for key in keys:  # panels of one metric are read against each other
        same = [panel for panel, place in zip(panels, places, strict=True) if place[0] == key]
        low, high = zip(*(panel.get_ylim() for panel in same), strict=True)
        for panel in same:
            panel.set_ylim(min(low), max(high))
    head = ["metric", "method", "setting", "published", "n", "epoch", "mean", "std"]
    rows = [
        [s.key, s.method, s.setting, s.published, s.n, *point]
        for s in chosen
        for point in zip(s.epoch, s.mean, s.std, strict=True)
    ]
    return save(figure, panels, out, [head, *rows])


def draw_sweep(entries: Sequence[dict[str, Any]], setting: str, metric: str, out: Path) -> list[Path]:
    """A final metric over a swept setting, a panel for each of the other settings: mean ± std over seeds.

    Raises:
        ConfigError: the table has no such sweep.
    """
    chosen = [entry for entry in entries if (entry["setting"], entry["metric"]) == (setting, metric)]
    if not chosen:
        known = sorted({f"--over {entry['setting']} --metric {entry['metric']}" for entry in entries})
        raise ConfigError(f"no figures of {metric} over {setting}: try {' or '.join(known) or 'a table with a grid'}")
    others, methods = (list(dict.fromkeys(entry[name] for entry in chosen)) for name in ("at", "method"))
    figure, panels = new_figure(len(others))
    for panel, other in zip(panels, others, strict=True):
        panel.set(title=other, xlabel=setting, ylabel=label(metric if "/" in metric else f"test/{metric}"))
        values = sorted({entry["x"] for entry in chosen})
        panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        for method, color in colors_of(methods).items():
            own = sorted((e for e in chosen if (e["method"], e["at"]) == (method, other)), key=lambda e: e["x"])
            if own:
                x, mean, std = ([e[name] for e in own] for name in ("x", "mean", "std"))
                title = named(method, min(e["n"] for e in own))
                panel.errorbar(
                    [values.index(value) for value in x], mean, std, color=color,
                    marker=marker_of(color), markersize=4, capsize=2, label=title,
                )  # fmt: skip
    head = ["method", "at", setting, metric, "std", "n"]
    return save(
        figure, panels, out, [head, *([e[k] for k in ("method", "at", "x", "mean", "std", "n")] for e in chosen)]
    )


def draw_maps(maps: dict[str, dict[str, Any]], out: Path, *, by: str = "class") -> list[Path]:
    """t-SNE maps side by side, colored by `class` or by `bias`.

    Raises:
        ConfigError: the data has no bias labels.
    """
    if any(by not in points for points in maps.values()):
        raise ConfigError(f"the data of these runs has no {by} labels: try --by class")
    figure, panels = new_figure(len(maps))
    names = sorted({str(name) for points in maps.values() for name in points[by]})
    for panel, (title, points) in zip(panels, maps.items(), strict=True):
        panel.set(title=title, xticks=[], yticks=[], frame_on=False)
        for i, name in enumerate(names):
            own = [j for j, value in enumerate(points[by]) if str(value) == name]
            x, y = ([points[axis][j] for j in own] for axis in "xy")
            panel.scatter(x, y, s=4, color=COLORS[i % len(COLORS)], label=name, linewidths=0)
    columns = [key for key in ("x", "y", "class", "bias") if all(key in points for points in maps.values())]
    rows = [
        [title, *row] for title, points in maps.items() for row in zip(*(points[key] for key in columns), strict=True)
    ]
    return save(figure, panels, out, [["map", *columns], *rows])


def tsne_map(run: Path) -> dict[str, list[Any]]:
    """{x, y, class, and on biased data bias} of at most 1,000 test images, embedded by the run's saved encoder.

    t-SNE (van der Maaten & Hinton 2008) of scikit-learn, perplexity 30, on normalized features; same map in every call.

    Raises:
        ConfigError: the run's dataset or encoder is none of this package: nothing that a file names is imported for it.
    """
    import torch  # late: curves need none of these
    from sklearn.manifold import TSNE
    from torch.nn.functional import normalize as unit_length

    from contrastive.experiment.encoder import load_encoder
    from contrastive.training.features import extract
    from contrastive.training.precision import Normalize

    data = build_dataset(read_config(run)["dataset"])
    encoder, _ = load_encoder(run)
    index = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))[:MAX_IMAGES]
    features = extract(encoder, data.test, Normalize(data.mean, data.std), index)
    map_ = TSNE(random_state=0, init="pca").fit_transform(unit_length(features.h, dim=1).numpy())
    points = {"x": map_[:, 0].round(1).tolist(), "y": map_[:, 1].round(1).tolist()}
    points["class"] = [data.classes[label] for label in features.label.tolist()]
    return points if features.bias is None else {**points, "bias": features.bias.tolist()}


def build_dataset(node: dict[str, Any]) -> Any:
    """Call the `_target_` of config.yaml's dataset, one of this package, with its other values."""
    if (target := find_component(node["_target_"], ("contrastive.dataset",))) is None:
        raise ConfigError(f"{node['_target_']} is no dataset of contrastive: try a run on one of its datasets")
    return target(**{key: value for key, value in node.items() if not key.startswith("_")})


def named(method: str, n: int) -> str:
    """A method with its number of seeds."""
    return f"{method} ({n} seed{'' if n == 1 else 's'})"


def save(figure: Any, panels: list[Any], out: Path, table: list[list[Any]]) -> list[Path]:
    """Write OUT.pdf, OUT.png and OUT.csv, whatever suffix `out` has; one legend below all panels."""
    add_legend(figure, panels)
    paths = [out.with_suffix(suffix) for suffix in (".pdf", ".png", ".csv")]
    write_figure(figure, paths[:2])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    write_text(paths[2], text.getvalue())
    return paths


if __name__ == "__main__":
    sys.exit(main())
