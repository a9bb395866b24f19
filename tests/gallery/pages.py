"""Reads what a page holds."""

import html
import json
import re
from typing import Any


def text_of(page: str) -> str:
    """The words that a reader sees, without scripts and styles."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "\n", bare))


def specs(page: str) -> list[dict[str, Any]]:
    """The charts."""
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return [json.loads(block) for block in blocks]


def loads_nothing(page: str) -> bool:
    """Whether every image, script and style stands in the page itself."""
    bare = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    sources = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", bare)
    return all(source.startswith(("data:image/", "#")) for source in sources) and "url(" not in page
