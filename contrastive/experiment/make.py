"""Build one component from the defaults of its YAML: for notebooks and tests, and other datasets for an evaluation."""

import inspect
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, cast

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from contrastive.config.check_types import check_types
from contrastive.config.identity import COMPONENTS
from contrastive.config.paths import CONFIGS, options
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_data, build_loss, instantiate_node
from contrastive.text import counted
from contrastive.types import Data

CONVERTED = {1, 3}  # channels of which `image_folder` makes the others


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
    is_loss = component.startswith("loss/")
    parameters = inspect.signature(get_object(node["_target_"])).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    allowed = [*parameters, "push"] if is_loss else [*parameters]
    if not takes_any and (unknown := [key for key in overrides if key not in allowed]):
        known = ", ".join(allowed) or "none"
        raise ConfigError(f'{component} has no option {unknown[0]}, its options are {known}: try make("{component}")')
    return build_loss(node) if is_loss else instantiate_node(node)


def component_node(component: str, overrides: dict[str, Any], settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The resolved node that `make` builds, plain containers.

    Args:
        settings: root settings in place of those of train.yaml, such as `data_root`.
    """
    node = _load_option(*_split_name(component))
    root = _load(CONFIGS / "train.yaml")  # the YAMLs refer to its ${temperature} and others
    objects = {"allow_objects": True}
    merged = OmegaConf.merge(OmegaConf.create({}, flags=objects), node, OmegaConf.create(overrides, flags=objects))
    plain_ones = {key: value for key, value in _without_defaults(root).items() if not isinstance(value, dict)}
    root = OmegaConf.create({**plain_ones, **(settings or {}), "component": merged}, flags=objects)
    plain = cast(dict[str, Any], OmegaConf.to_container(root.component, resolve=True))
    check_types(plain, component.partition("/")[0])
    return plain


def load_other_data(name: str, *, like: Data, data_root: str) -> Data:
    """A labeled dataset by the name of its YAML, or the image folder at a path, with images of the side of `like`.

    Raises:
        ConfigError: there is none of this name, or its images have no labels, or other channels than those of `like`.
    """
    size = like.test.image.shape[-1]
    known = [option for option in options("dataset") if option not in ("image_folder", "arrays")]
    if name in known:
        if "size" not in component_node(f"dataset/{name}", {}, {"data_root": data_root}):
            raise ConfigError(
                f"the images of {name} have a size of their own: try evaluator.transfer.datasets=[digits]"
            )
        node = component_node(f"dataset/{name}", {"size": size}, {"data_root": data_root})
    elif Path(name).is_dir():
        node = component_node("dataset/image_folder", {"root": name, "size": size}, {"data_root": data_root})
    else:
        raise ConfigError(
            f"there is no dataset and no image folder {name}, known are {', '.join(known)}: "
            "try evaluator.transfer.datasets=[digits]"
        )
    data = build_data(node)
    if not data.classes:
        raise ConfigError(f"the images in {name} have no labels: try evaluator.transfer.datasets=[digits]")
    if data.n_channels != like.n_channels:
        mine, theirs = counted(like.n_channels, "channel"), counted(data.n_channels, "channel")
        hint = f"images of {mine} in evaluator.transfer.datasets, or '~evaluator.transfer'"
        if name not in known and {data.n_channels, like.n_channels} == CONVERTED:
            place = f"dataset=image_folder dataset.root={name} dataset.size={size} dataset.channels={like.n_channels}"
            hint = f"'~evaluator.transfer', and after the run: python -m contrastive evaluate RUN {place}"
        raise ConfigError(f"the encoder takes images of {mine} and those in {name} have {theirs}: try {hint}")
    return data


def _split_name(component: str) -> tuple[str, str]:
    """The group and the option of an existing component."""
    group, _, option = component.partition("/")
    if group not in COMPONENTS:
        raise ConfigError(
            f'there is no component {component}, groups are {", ".join(sorted(COMPONENTS))}: try make("loss/nt_xent")'
        )
    known = options(group)
    if option not in known:
        example = next(iter(get_close_matches(option, known, n=1) or known), "")
        found = (
            f', known are {", ".join(known)}: try make("{group}/{example}")' if known else f": try {group}=[my_{group}]"
        )
        raise ConfigError(f"there is no {group}/{option}{found}")
    return group, option


def _load_option(group: str, option: str) -> DictConfig:
    """The component's node, merged with the options of the same group that its defaults list names."""
    content = _load(CONFIGS / group / f"{option}.yaml")
    node = content[group] if group in content else _without_defaults(content)  # a dataset's YAML also holds a recipe
    defaults = [name for name in content.get("defaults", []) if isinstance(name, str)]
    if "_self_" not in defaults:
        defaults.append("_self_")
    return cast(
        DictConfig, OmegaConf.merge(*(node if name == "_self_" else _load_option(group, name) for name in defaults))
    )


@cache
def _load(path: Path) -> DictConfig:
    """A YAML of this package; nobody writes to what is read."""
    return cast(DictConfig, OmegaConf.load(path))


def _without_defaults(content: DictConfig) -> dict[str, Any]:
    """The nodes of a YAML, interpolations unresolved, without the parts addressed to Hydra."""
    plain = cast(dict[str, Any], OmegaConf.to_container(content, resolve=False))
    return {key: value for key, value in plain.items() if key not in ("defaults", "hydra")}
