"""Pieces of HTML, and the document around them."""

import importlib
import json
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.series import COLORS
from contrastive.tables.verdicts import VERDICTS

HERE = Path(__file__).parent
LIBRARY = "Vega, Vega-Lite and Vega-Embed, BSD 3-Clause, with D3, ISC: https://github.com/vega, https://github.com/d3"
# `<` never stands in embedded JSON, so that no text of a table can end the script element around it
SCRIPT = '<script type="application/json" id="{id}">{json}</script>'


def document(title: str, body: str) -> str:
    """A whole page that needs no network: its style is inside."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{(HERE / 'page.css').read_text()}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def scripts() -> str:
    """The charting library and the page's own script.

    Raises:
        ConfigError: vl-convert-python is not installed.
    """
    library = vl_convert().javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    script = (HERE / "page.js").read_text()
    return f"\n<!-- Charts: {LIBRARY} -->\n<script>{library}</script>\n<script>\n{script}</script>"


def vl_convert() -> ModuleType:
    """The package that brings the charting library."""
    try:
        return importlib.import_module("vl_convert")  # late: only pages need it
    except ImportError:
        raise ConfigError("the page's charts need vl-convert-python: try pip install -e '.[report]'") from None


def element(name: str, text: str, **attributes: str) -> str:
    """An element around escaped text; `class_` is the attribute class."""
    return f"<{name}{_attributes(attributes)}>{escape(text)}</{name}>"


def block(name: str, *parts: str, **attributes: str) -> str:
    """An element around HTML; empty without parts."""
    inner = "\n".join(part for part in parts if part)
    return f"<{name}{_attributes(attributes)}>\n{inner}\n</{name}>" if inner else ""


def _attributes(attributes: dict[str, str]) -> str:
    return "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())


def table(grid: list[list[str]]) -> str:
    """A grid of text, its head first, that scrolls sideways on a narrow screen; verdicts are colored."""
    head, *body = grid
    rows = ["".join(_cell(text) for text in row) for row in body]
    lines = [f"<tr>{row}</tr>" for row in rows]
    header = "".join(element("th", text) for text in head)
    return f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _cell(text: str) -> str:
    if text in VERDICTS:
        return element("td", text, class_=f"verdict {text.replace(' ', '-')}")
    return element("td", text, class_="text") if len(text) > 30 else element("td", text)


def chart(id_: str, spec: dict[str, Any], caption: str = "") -> str:
    """A place that page.js fills with the chart."""
    text = json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c")
    title = element("figcaption", caption) if caption else ""
    figure = f'<figure>{title}<div class="chart" data-spec="{id_}"></div></figure>'
    return figure + SCRIPT.format(id=id_, json=text)


def select(name: str, title: str, options: dict[str, str]) -> str:
    """A labeled menu of {value: text}."""
    choices = "".join(element("option", text, value=value) for value, text in options.items())
    return f'<label>{escape(title)} <select name="{name}">{choices}</select></label>'


def legend(names: list[str], *, buttons: bool) -> str:
    """Names beside their colors; buttons hide and show."""
    items = []
    for i, name in enumerate(names):
        dot = f'<i style="background:{COLORS[i % len(COLORS)]}"></i>{escape(name)}'
        if buttons:
            items.append(f'<button type="button" aria-pressed="true" data-name="{escape(name)}">{dot}</button>')
        else:
            items.append(f"<span>{dot}</span>")
    return f'<div class="legend">{"".join(items)}</div>'
