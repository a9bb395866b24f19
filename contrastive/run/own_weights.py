"""Are the files of weights in a finished run those that the run wrote?"""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.run.result import read_result
from contrastive.weights.metadata import ENCODER, HEAD, tensors_hash


def weights_hashes(run: Path) -> dict[str, str]:
    """{file: sha256 of its tensors} of the whole files of weights in a run directory."""
    hashes = {name: tensors_hash(run / name) for name in (ENCODER, HEAD)}
    return {name: value for name, value in hashes.items() if value is not None}


def has_own_weights(run: Path, result: dict[str, Any]) -> bool:
    """Whether both files of weights are there, whole, and those that the result names."""
    hashes = weights_hashes(run)
    return hashes.keys() == {ENCODER, HEAD} and hashes == result.get("weights", hashes)


def check_own(file: Path) -> None:
    """Raise ConfigError if the file lies in a finished run and is not the one that the run wrote."""
    recorded = (read_result(file.parent) or {}).get("weights", {}).get(file.name)
    if recorded is not None and tensors_hash(file) != recorded:
        raise ConfigError(
            f"{file} is damaged or another run's: try the command of its run again, which writes it from the checkpoint"
        )
