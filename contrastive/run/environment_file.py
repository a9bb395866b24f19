"""environment.json of a run directory, which anybody may have written: read as data. Imports no torch."""

import json
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError

KEYS = {"command": str, "code": str, "data": str, "threads": int}  # of every run


def read_environment(run: Path) -> dict[str, Any]:
    """The record of what produced a run.

    Raises:
        ConfigError: environment.json is missing, damaged or no run's.
    """
    file = run / "environment.json"
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not all(isinstance(content.get(key), kind) for key, kind in KEYS.items()):
        raise ConfigError(f"{file} is missing or damaged: try rerun=true with the command of the run to start it over")
    return content
