"""Write a folder of images as tar shards for dataset=shards: the bytes as they are, the rows shuffled.

    python -m contrastive pack SOURCE DEST

SOURCE is a folder as dataset=image_folder takes it: train/<class>/ and test/<class>/, <class>/ alone, or images without
labels. DEST/train and DEST/test get the shards and an index beside each, DEST/classes.txt the classes in the order of
their numbers, DEST/SHA256SUMS the hashes of the shards. Files that cannot be read are named. Interrupted, the same
command goes on; typed in several terminals at once, it shares the work.
"""

from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import check_at_least
from contrastive.text import show


@answering
def main(words: list[str]) -> int:
    """Write the shards, print how to train on them; returns the exit code."""
    parser = Parser("pack", __doc__)
    parser.add_argument("source", metavar="SOURCE", type=Path, help="the folder of the images")
    parser.add_argument("dest", metavar="DEST", type=Path, help="the folder of the shards")
    parser.add_argument("--per-shard", type=int, default=10_000, metavar="N", help="images in a shard; default: 10000")
    options = parser.parse_args(words)
    check_at_least("--per-shard", options.per_shard, 1, example=10_000)

    from contrastive.dataset.shard.pack import pack_folder

    for name, found in pack_folder(options.source, options.dest, per_shard=options.per_shard).items():
        show(f"{options.dest / name}: {sum(len(index.entries) for index in found):,} images, {len(found):,} shards")
    place, name = options.dest, options.dest.resolve().name
    said = f"dataset.name={name} dataset.root={place}/train dataset.test={place}/test dataset.size=32"
    show(f"\npython train.py dataset=shards {said}")
    return 0
