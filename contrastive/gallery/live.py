"""The page of `contrastive page --watch`: every run below some folders, running ones too, written anew as their files
change."""

from pathlib import Path
from time import sleep, strftime
from typing import Any

from contrastive.files import write_text
from contrastive.gallery.seen import Seen, knn_cells, runs_seen
from contrastive.study.curves import Series, thin
from contrastive.study.render.templates.fill import chart_module, filled
from contrastive.text import as_typed, show

EVERY = 10  # seconds between looks, and between reloads of the page
N_CURVES = 12  # runs whose curves are shown: those that logged last
N_POINTS = 100  # of a curve


def watch(folders: list[Path], page: Path) -> None:
    """Write the page, and write it again whenever a run began, logged or ended; Ctrl-C ends it.

    Raises:
        ConfigError: there is no run, or a package that draws charts is not installed.
    """
    before: list[Any] = []
    try:
        while True:
            runs = runs_seen(folders)
            if (now := [(run.path, run.kind, len(run.points)) for run in runs]) != before:
                write_text(page, live_page(runs, folders, refresh=EVERY))
                if not before:
                    show(f"page to look at: {as_typed(page)}, written again as runs go on; Ctrl-C ends it")
                before = now
            sleep(EVERY)
    except KeyboardInterrupt:
        write_text(page, live_page(runs_seen(folders), folders, refresh=None))
        show(f"\n{as_typed(page)} stays as it is")


def live_page(runs: list[Seen], folders: list[Path], *, refresh: int | None) -> str:
    """The whole document.

    Args:
        refresh: seconds after which a browser loads it again; None = never.
    """
    charts = chart_module()
    order = {kind: i for i, kind in enumerate(("running", "interrupted"))}
    rows = sorted(runs, key=lambda run: order.get(run.kind, len(order)))
    cells = [[run.kind, run.epochs, knn, str(run.path)] for run, knn in zip(rows, knn_cells(rows), strict=True)]
    counts = {kind: sum(run.kind == kind for run in rows) for kind in dict.fromkeys(run.kind for run in rows)}
    logged = sorted((run for run in runs if run.points), key=lambda run: (run.path / "metrics.jsonl").stat().st_mtime)
    series = [one for run in logged[-N_CURVES:] for one in curves(run)]
    keys = sorted(dict.fromkeys(one.key for one in series), key=lambda key: not key.startswith("test/"))
    methods = list(dict.fromkeys(one.method for one in series))
    return filled(
        "live.html",
        charts=charts,
        refresh=refresh,
        title=", ".join(f"{n} {kind}" for kind, n in counts.items()),
        written=strftime("%H:%M:%S"),
        folders=", ".join(map(str, folders)),
        runs=[["state", "epochs", "kNN", "run"], *cells],
        curves=charts.curves_chart(series, methods, keys) if series else None,
        n_hidden=max(0, len(logged) - N_CURVES),
    )


def curves(run: Seen) -> list[Series]:
    """The curves of a run that have more than one point by now."""
    names = dict.fromkeys(key for point in run.points for key in point if key not in ("step", "epoch"))
    pairs = {key: [(point["epoch"], point[key]) for point in run.points if key in point] for key in names}
    thinned = {key: thin(own, N_POINTS) for key, own in pairs.items() if len(own) > 1}
    return [
        Series(method=str(run.path), setting="", key=key, published=False, epoch=own["epoch"], mean=own["value"],
               std=[0.0] * len(own["epoch"]), n=1, minutes_per_epoch=None)
        for key, own in thinned.items()
    ]  # fmt: skip
