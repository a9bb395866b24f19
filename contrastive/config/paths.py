"""The folder of the YAML files, found from any working directory. Imports nothing slow: the command line uses it."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = _PACKAGE / "configs"

# Inside the package when installed from a wheel, beside it in a checkout.
CONFIGS = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "configs"


def options(group: str) -> list[str]:
    """The names of the YAML files in configs/<group>, sorted."""
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))
