"""A page without scripts: text and pictures only, so that it can be committed.

Its charts are drawn when it is written, one metric each; browsers show a point's values when one points at it.
"""

import hashlib
import json
import re
from html import escape, unescape
from typing import Any

from contrastive.report.web.html import vl_convert

WIDE, NARROW = 600, 460  # pixels; the style shrinks a picture to its place
CHART = re.compile(
    r'<div class="chart" data-spec="([\w-]+)"></div></figure>'
    r'<script type="application/json" id="\1">(.*?)</script>', re.DOTALL
)  # fmt: skip
MENU = re.compile(r"<label>([^<]*)<select.*?<option[^>]*>(.*?)</option>.*?</select></label>", re.DOTALL)
BUTTON = re.compile(r"<button[^>]*>(.*?)</button>", re.DOTALL)
MARK = re.compile(r'<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="([\w ]+)"([^>]*)/>')
DRAWN_FROM = ("x", "order")  # fields of a point that only say where it is drawn


def without_scripts(body: str) -> str:
    """The body of a page with each chart drawn, each menu as its first choice, and each button as a label."""
    body = CHART.sub(_drawn, body)
    return BUTTON.sub(r"<span>\1</span>", MENU.sub(r"<span>\1\2</span>", body))


def _drawn(match: re.Match[str]) -> str:
    """The chart in its place, with a hash of what it was drawn from: a test sees whether it is up to date."""
    drawn_from = hashlib.sha256(match[2].encode()).hexdigest()[:16]
    return f'<div class="chart" data-from="{drawn_from}">{svg(json.loads(match[2]), match[1])}</div></figure>'


def svg(spec: dict[str, Any], id_: str) -> str:
    """The chart as SVG; a point's tooltip is its `title` element."""
    width = WIDE if id_.endswith("-claims") else NARROW
    layers = {"layer": [_without_pointer(layer) for layer in spec["layer"]]} if "layer" in spec else {}
    return MARK.sub(_with_title, vl_convert().vegalite_to_svg({**spec, **layers, "width": width}))


def _without_pointer(layer: dict[str, Any]) -> dict[str, Any]:
    """The layer without its pointer's parameter, of which a picture would keep a net of invisible cells."""
    if "params" not in layer:
        return layer
    kept = {key: value for key, value in layer.items() if key != "params"}
    return {**kept, "encoding": {**layer["encoding"], "opacity": {"value": 0}}}


def _with_title(match: re.Match[str]) -> str:
    """The mark with a title of a line for each field of a point; a line or an area, which has one point's, has none."""
    label, kind, attributes = match.groups()
    if kind not in ("point", "circle"):
        return f"<path{attributes}/>"
    fields = [field for field in unescape(label).split("; ") if field.partition(":")[0] not in DRAWN_FROM]
    return f"<path{attributes}><title>{escape(chr(10).join(fields), quote=False)}</title></path>"
