"""Settings of a run: the folder of the YAML files, found from any working directory."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARIES = {"site-packages", "dist-packages"}  # folders of modules that are not the user's own
_INSTALLED = PACKAGE / "configs"
# Inside the package when installed from a wheel, beside it in a checkout.
CONFIGS = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent / "configs"
