"""Build one component from the defaults of its YAML: for notebooks and tests, and other datasets for an evaluation."""

from functools import cache
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from contrastive.config.identity import COMPONENTS
from contrastive.config.reference import ROOT_FILE, derivation, option_files
from contrastive.config.targets import check_types
from contrastive.config.words import no_option
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_data, build_loss, check_channels, instantiate_node
from contrastive.types import Data


def make(component: str, **overrides: Any) -> Any:
    """Build a component from its YAML, such as `make("loss/debiased_pos", tau_plus=0.05)`.

    Args:
        component: `group/option`, the path of a YAML below configs/ without its suffix.
        overrides: values instead of the YAML's, dicts for nested settings, and arguments of the constructor that the
            YAML does not have because the program supplies them, such as `in_dim` of a head, or `push` of a loss.

    Returns:
        the component; for an optimizer a function that takes the parameters; None for `regularizer/none`.

    Raises:
        ConfigError: the component or an option does not exist, or the constructor refuses a value.
    """
    node = component_node(component, overrides)
    if "_target_" not in node:
        return None
    return build_loss(node) if component.startswith("loss/") else instantiate_node(node)


def component_node(component: str, overrides: dict[str, Any], settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The resolved node that `make` builds, plain containers.

    Args:
        settings: root settings in place of those of train.yaml, such as `data_root`.
    """
    group, _, option = component.partition("/")
    if group not in COMPONENTS:
        raise ConfigError(
            f'there is no component {component}, groups are {", ".join(sorted(COMPONENTS))}: try make("loss/nt_xent")'
        )
    if option not in (known := option_files(group)):
        raise ConfigError(no_option(group, option, known))
    contents = [_load(file) for file in reversed(derivation(group, option))]
    nodes = [content.get(group, content) for content in contents]  # a dataset's YAML also holds a recipe
    objects = {"allow_objects": True}
    merged = OmegaConf.merge(OmegaConf.create({}, flags=objects), *nodes, OmegaConf.create(overrides, flags=objects))
    # the YAMLs refer to ${temperature} and others
    roots = {str(key): value for key, value in _load(ROOT_FILE).items() if not isinstance(value, DictConfig)}
    root = OmegaConf.create({**roots, **(settings or {}), "component": merged}, flags=objects)
    plain = cast(dict[str, Any], OmegaConf.to_container(root.component, resolve=True))
    plain.pop("defaults", None)
    check_types(plain, group)
    return plain


def load_other_data(name: str, *, like: Data, data_root: str) -> Data:
    """A labeled dataset by the name of its YAML, or the image folder at a path, with images of the side of `like`.

    Raises:
        ConfigError: there is none of this name, or its images have no labels, or other channels than those of `like`.
    """
    is_folder = name not in option_files("dataset") and Path(name).is_dir()
    component, own = ("dataset/image_folder", {"root": name}) if is_folder else (f"dataset/{name}", {})
    node = component_node(component, own, {"data_root": data_root})
    if "size" not in node:
        raise ConfigError(f"the images of {name} have a size of their own: try evaluator.transfer.datasets=[digits]")
    data = build_data({**node, "size": like.test.image.shape[-1]})
    if not data.classes:
        raise ConfigError(f"the images in {name} have no labels: try evaluator.transfer.datasets=[digits]")
    check_channels(like.n_channels, data, f"other images than {name} in evaluator.transfer.datasets")
    return data


@cache
def _load(path: Path) -> DictConfig:
    """A YAML of this package; nobody writes to what is read."""
    return cast(DictConfig, OmegaConf.load(path))
