"""Write a folder of images as tar shards for dataset=shards: the bytes as they are, the rows shuffled.

    python -m contrastive pack SOURCE DEST
    python -m contrastive pack SOURCE DEST dataset.table=metadata.csv

SOURCE is a folder as dataset=image_folder takes it: train/<class>/ and test/<class>/, <class>/ alone, images without
labels, or any folder with dataset.table, dataset.columns or dataset.splits of it. DEST/train and
DEST/test (and DEST/val, where there are validation images beside test images) get the shards and an index beside each,
DEST/classes.txt the classes and DEST/biases.txt the biases in the order of their numbers, DEST/SHA256SUMS the hashes of
the shards.
Each image is decoded once: those that cannot be are left out by the index, and named in DEST/left_out.txt. Interrupted,
the same command goes on; typed in several terminals at once, it shares the work.
"""

from pathlib import Path
from typing import Any

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError, check_at_least
from contrastive.text import as_typed, show

FOLDER_KEYS = ("dataset.table", "dataset.columns", "dataset.splits")


@answering
def main(words: list[str]) -> int:
    """Write the shards, print how to train on them; returns the exit code."""
    parser = Parser("pack", __doc__)
    parser.add_argument("source", metavar="SOURCE", type=Path, help="the folder of the images")
    parser.add_argument("dest", metavar="DEST", type=Path, help="the folder of the shards")
    known = f"{', '.join(FOLDER_KEYS)} of image_folder"
    # with a default, argparse does not name it among what is missing
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="*", default=[], help=known)
    parser.add_argument("--per-shard", type=int, default=10_000, metavar="N", help="images in a shard; default: 10000")
    options = parser.parse_intermixed_args(words)
    check_at_least("--per-shard", options.per_shard, 1, example=10_000)
    settings = folder_settings(options.settings)

    from contrastive.cli.look import size_in_shards
    from contrastive.dataset.image_folder import listed_images
    from contrastive.dataset.shard.pack import LEFT_OUT, pack

    dest = options.dest
    listed = listed_images(options.source, **settings)
    show(str(listed.found()))
    written = pack(listed, dest, per_shard=options.per_shard)
    for name, found in written.items():
        show(f"{dest / name}: {sum(len(index.entries) for index in found):,} images, {len(found):,} shards")
    if n := sum(len(index.facts["faults"]) for found in written.values() for index in found):
        first = (dest / LEFT_OUT).read_text().partition("\n")[0]
        show(f"left out: {n:,}, cannot be read, in {dest / LEFT_OUT} ({first}{', ...' if n > 1 else ''})")
    bias = " dataset.bias=bias" if (dest / "biases.txt").exists() else ""
    show(f"\npython train.py dataset=shards dataset.root={as_typed(dest)}{bias} {size_in_shards(written['train'])}")
    return 0


def folder_settings(words: list[str]) -> dict[str, Any]:
    """The settings of `image_folder` that were typed: {table, columns, splits: value}.

    Raises:
        ConfigError: another setting, or a value that Hydra cannot read.
    """
    from contrastive.cli.look import parsed  # late: it imports Hydra

    settings = parsed(words)
    if unknown := [key for key in settings if f"dataset.{key}" not in FOLDER_KEYS]:
        raise ConfigError(f"pack has no dataset.{unknown[0]}: try {', '.join(FOLDER_KEYS)} or --per-shard")
    return settings
