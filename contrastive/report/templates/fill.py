"""Fill the templates of pages: each is one file that needs no network and no server."""

from types import ModuleType
from typing import Any

from contrastive.errors import ConfigError

TRIED = "try pip install -e '.[report]'"


def chart_module() -> ModuleType:
    """`report.charts`, which is slow to import.

    Raises:
        ConfigError: a package that draws charts is not installed.
    """
    try:
        from contrastive.report import charts
    except ImportError as error:
        raise ConfigError(f"a page needs {error.name}, which is missing: {TRIED}") from None
    return charts


def filled(template: str, *, charts: ModuleType | None, static: bool = False, **values: Any) -> str:
    """A whole document.

    Args:
        charts: `chart_module()`; None = the page has no charts.
        static: charts are drawn now, and no script runs.
        values: what the template shows, besides that.

    Raises:
        ConfigError: the package that fills templates is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ConfigError(f"a page needs {error.name}, which is missing: {TRIED}") from None

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
    return environment.get_template(template).render(static=static, library=library, svg=svg, **own)
