"""Read a YAML file's structure before anything is built from it. Imports no torch."""

from pathlib import Path

import yaml

from contrastive.errors import ConfigError

MAX_NODES = 100_000  # of a file, its aliases written out; the largest here has 200


def check_yaml(path: Path) -> None:
    """Raise ConfigError unless the file is YAML, a mapping or empty, and finite once its aliases are written out."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8: try iconv -t UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or "it cannot be read"
        raise ConfigError(f"{path}{place} is not YAML ({reason}): compare it with configs/loss/nt_xent.yaml") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply: try fewer levels") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path} must hold KEY: VALUE lines: try _target_: my_module.MyClass as its first")
    if count_nodes(root, path, sizes={}) > MAX_NODES:
        raise ConfigError(f"{path} has more than {MAX_NODES} values once its aliases are written out: try fewer")


def count_nodes(node: yaml.Node, path: Path, *, sizes: dict[int, int]) -> int:
    """Nodes of a tree in which every alias is replaced by what it stands for.

    Args:
        sizes: of the nodes counted before, by identity; 0 marks those that are being counted.
    """
    size = sizes.get(id(node))
    if size == 0:
        raise ConfigError(f"{path}, line {node.start_mark.line + 1} has an alias that contains itself: try without it")
    if size is None:
        sizes[id(node)] = 0
        children = [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else []
        children = node.value if isinstance(node, yaml.SequenceNode) else children
        sizes[id(node)] = size = 1 + sum(count_nodes(child, path, sizes=sizes) for child in children)
    return size
