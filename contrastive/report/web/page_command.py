"""Write one HTML file with tables, claims and curves; it needs no network and no server.

RUN_OR_TABLE is the JSON that make reproduce-table writes beside its Markdown, the folder of a table's runs, or any
folder with finished runs.
"""

import argparse
import sys
from pathlib import Path

from contrastive.files import write_text
from contrastive.report.sources import Source, read_sources
from contrastive.report.web import html
from contrastive.report.web.sections import section
from contrastive.report.web.static import without_scripts

WITH_MENUS = "Point at a curve to read it; click a method to hide it."
STATIC = "Point at a curve to read it. A page with menus: python -m contrastive.report page OUT.html TABLE.json ..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT.html")
    parser.add_argument("paths", nargs="+", type=Path, metavar="RUN_OR_TABLE")
    parser.add_argument("--static", action="store_true", help="draw the charts now, one metric each: no script inside")


def run(arguments: argparse.Namespace) -> int:
    sources, left_out = read_sources(arguments.paths)
    write_text(arguments.out, page(sources, static=arguments.static))
    for sentence in left_out:
        print(sentence, file=sys.stderr)
    size = arguments.out.stat().st_size / 2**20
    print(f"{arguments.out}: {len(sources)} table{'' if len(sources) == 1 else 's'}, {size:.1f} MB")
    return 0


def page(sources: list[Source], *, static: bool = False) -> str:
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
        sections.append(section(source.record, f"table-{i}", {}, static=static))
    title, body = " · ".join(titles) if len(titles) < 3 else "Results", header + html.block("main", *sections)
    return html.document(title, without_scripts(body)) if static else html.document(title, body + html.scripts())
