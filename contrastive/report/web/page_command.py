"""Write one HTML file with tables, claims and curves; it needs no network and no server.

RUN_OR_TABLE is the JSON that make reproduce-table writes beside its Markdown, the folder of a table's runs, or any
folder with finished runs.
"""

import argparse
import sys
from pathlib import Path

from contrastive.files import write_text
from contrastive.report.embedding import tsne_map
from contrastive.report.sources import Source, read_sources
from contrastive.report.web import html
from contrastive.report.web.sections import section
from contrastive.report.web.static import without_scripts

WITH_MENUS = "Point at a curve to read it; click a method to hide it."
STATIC = "Point at a curve to read it. A page with menus: python -m contrastive.report page OUT.html TABLE.json ..."
MAX_MAPS = 6  # rows of a table whose features are mapped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT.html")
    parser.add_argument("paths", nargs="+", type=Path, metavar="RUN_OR_TABLE")
    parser.add_argument("--static", action="store_true", help="draw the charts now, one metric each: no script inside")
    parser.add_argument("--tsne", action="store_true", help="add t-SNE maps of test images: seconds for each row")


def run(arguments: argparse.Namespace) -> int:
    sources, left_out = read_sources(arguments.paths)
    write_text(arguments.out, page(sources, with_maps=arguments.tsne, static=arguments.static))
    for sentence in left_out:
        print(sentence, file=sys.stderr)
    size = arguments.out.stat().st_size / 2**20
    print(f"{arguments.out}: {len(sources)} table{'' if len(sources) == 1 else 's'}, {size:.1f} MB")
    return 0


def spaced(rows: list[str]) -> list[str]:
    """At most MAX_MAPS of the rows, the first and the last among them."""
    n = min(MAX_MAPS, len(rows))
    return [rows[round(i * (len(rows) - 1) / max(1, n - 1))] for i in range(n)]


def page(sources: list[Source], *, with_maps: bool = False, static: bool = False) -> str:
    """The whole document; a static one has no menus and runs no script."""
    titles = [source.record["title"] for source in sources]
    links = [html.element("a", title, href=f"#table-{i}") for i, title in enumerate(titles)]
    header = html.block(
        "header",
        html.element("h1", "Results"),
        html.element("p", STATIC if static else WITH_MENUS, class_="note"),
        html.block("nav", *links) if len(titles) > 1 else "",
    )
    sections = []
    for i, source in enumerate(sources):
        maps = {name: tsne_map(source.runs[name]) for name in spaced(list(source.runs))} if with_maps else {}
        sections.append(section(source.record, f"table-{i}", maps, static=static))
    title, body = " · ".join(titles) if len(titles) < 3 else "Results", header + html.block("main", *sections)
    return html.document(title, without_scripts(body)) if static else html.document(title, body + html.scripts())
