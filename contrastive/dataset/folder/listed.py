"""Classes, biases and the files of each split of a folder: from class folders, a table, or a pattern in the paths."""

import re
from collections.abc import Mapping
from pathlib import Path

from contrastive.dataset.folder.layout import Part, find_images
from contrastive.dataset.folder.table import read_table
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing
from contrastive.text import printable

SPLITS_EXAMPLE = "'dataset.splits={extra: train, id_val: null}'"


def listed_images(
    base: Path,
    *,
    unlabeled: str | None = None,
    table: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    splits: Mapping[str, str | None] | None = None,
    bias_pattern: str | None = None,
) -> Listing[Part]:
    """What a folder holds; arguments and errors as in `image_folder`."""
    if unlabeled is not None and bias_pattern is not None:
        raise ConfigError(
            "dataset.unlabeled adds images without bias labels, which dataset.bias_pattern needs: "
            "try dataset.bias_pattern=null"
        )
    if table is not None and (unlabeled is not None or bias_pattern is not None):
        raise ConfigError("dataset.table has all labels: try dataset.unlabeled=null dataset.bias_pattern=null")
    if table is None and columns:
        raise ConfigError("dataset.columns names columns of a table: try dataset.table=metadata.csv")
    meant = {str(name): split for name, split in (splits or {}).items()}
    if odd := [split for split in meant.values() if split not in ("train", "val", "test", None)]:
        raise ConfigError(f"dataset.splits has train, val, test and null, got {odd[0]}: try {SPLITS_EXAMPLE}")
    if table is not None:
        return read_table(base, base / table, columns or {}, meant)
    listed = find_images(base, None if unlabeled is None else Path(unlabeled), meant)
    return listed if bias_pattern is None else _with_biases(listed, bias_pattern)


def _with_biases(listed: Listing[Part], pattern: str) -> Listing[Part]:
    """The same files with the bias that the pattern finds in their paths; the biases are named and sorted."""
    hint = "try 'dataset.bias_pattern=_([0-9]+)[.]png$'"
    names = {}
    for file in (file for part in listed.splits.values() for file in part.files):
        try:
            match = re.search(pattern, file.path)
        except re.error as error:
            raise ConfigError(f"dataset.bias_pattern={pattern} is not a regular expression ({error}): {hint}") from None
        if match is None or not match.groups() or match[1] is None:
            raise ConfigError(f"dataset.bias_pattern={pattern} finds no group in {printable(file.path)}: {hint}")
        names[file] = match[1]
    biases = tuple(sorted(set(names.values())))
    parts = {
        name: Part(part.folder, [file._replace(bias=biases.index(names[file])) for file in part.files])
        for name, part in listed.splits.items()
    }
    return listed._replace(splits=parts, biases=biases)
