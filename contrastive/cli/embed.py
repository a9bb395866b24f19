"""Write the features of images by the encoder of a finished run, with their paths and labels.

    python -m contrastive embed outputs/digits/nt_xent/default/seed=0 photos -o features.npz

PLACE is a folder of images (with all folders below) or of packed shards, a tar shard, a table with a column of paths,
or an image. A label is the name of an image's folder, or what the table or the shard says. Images get the size and the
standardization of the run. Those that cannot be read are left out and named.

    -o features.npz       arrays path, label, features
    -o features.csv       columns path, label, 0, 1, ...; .parquet likewise (needs pyarrow)
"""

from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.text import counted

SHOWN = 5  # images that are left out, by name


@answering
def main(words: list[str]) -> int:
    """Embed and write, print what was written; returns the exit code."""
    parser = Parser("embed", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory, or its encoder.safetensors alone, or digits")
    parser.add_argument("places", metavar="PLACE", nargs="+", type=Path, help="folders, shards, tables or images")
    parser.add_argument("-o", dest="file", metavar="FILE", type=Path, required=True, help="what is written, as above")
    parser.add_argument("--device", default="auto", help="as in train.py; default: auto")
    parser.add_config_dir()
    options = parser.parse_args(words)

    from contrastive.experiment.encoder import open_encoder  # late: torch takes seconds
    from contrastive.experiment.machine import start_device
    from contrastive.export.embed import check_file, embed, items_of

    check_file(options.file, options.places)
    device = start_device(options.device)
    encoder, transform = open_encoder(options.run, options.folders)
    found = embed(encoder, transform, items_of(options.places), device=device)
    found.write(options.file)
    n, size = found.features.shape
    print(f"{options.file}: {counted(n, 'image')}, {size} features each")
    for path, why in list(found.left_out.items())[:SHOWN]:
        print(f"left out: {path} ({why})")
    if (more := len(found.left_out) - SHOWN) > 0:
        print(f"left out: {more} more")
    return 0
