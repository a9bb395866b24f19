"""Build one component from its YAML, by hand."""

from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def build(group: str, name: str, **arguments: Any) -> Any:
    """Instantiate configs/<group>/<name>.yaml with these arguments in place of its own.

    Raises:
        FileNotFoundError: there is no such YAML.
    """
    root = OmegaConf.load(CONFIGS / "train.yaml")
    node = OmegaConf.merge(OmegaConf.load(CONFIGS / group / f"{name}.yaml"), arguments)
    knobs = {key: OmegaConf.select(root, key) for key in ("temperature", "tau_plus")}
    return instantiate(OmegaConf.create({**knobs, "node": node}).node, _convert_="all")
