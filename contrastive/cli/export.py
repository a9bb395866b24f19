"""Write the encoder of a finished run in the format of others; nothing is uploaded.

    python -m contrastive export outputs/digits/nt_xent/default/seed=0 --onnx

Several formats may be asked for at once.
"""

from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError
from contrastive.run.files import ENCODER, run_below, weights_path


@answering
def main(words: list[str]) -> int:
    """Write what the words ask for, print the paths; returns the exit code."""
    parser = Parser("export", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run, a folder with one below it, or its encoder.safetensors")
    parser.add_argument("--onnx", action="store_true", help="encoder.onnx in the run directory, normalization included")
    parser.add_argument("--huggingface", metavar="DIR", type=Path, help="a folder in the layout of the Hub")
    parser.add_argument("--pt2", action="store_true", help="encoder.pt2, the same for torch.export.load alone")
    parser.add_argument("--license", default="unknown", help="license in the model card; default: unknown")
    parser.add_config_dir()
    options = parser.parse_args(words)
    if not (options.onnx or options.pt2 or options.huggingface):
        raise ConfigError("nothing to write: try --onnx, --pt2 or --huggingface DIR")
    place = Path(options.run).expanduser()
    file = weights_path(run_below(place, ENCODER) if place.is_dir() else place)

    from contrastive.export.formats import export_huggingface, export_onnx, export_pt2

    if options.onnx:
        print(export_onnx(file, options.folders))
    if options.pt2:
        print(export_pt2(file, options.folders))
    if options.huggingface:
        print(export_huggingface(file, options.huggingface, license=options.license))
    return 0
