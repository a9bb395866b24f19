"""An encoder as ONNX, with the normalization of its images inside."""

import contextlib
import io
import warnings
from pathlib import Path

import torch

from contrastive.errors import ConfigError
from contrastive.export.pixels import SHAPES, load_from_pixels, reason
from contrastive.files import atomic
from contrastive.run.files import weights_path


def export_onnx(path: str | Path) -> Path:
    """Write encoder.onnx beside the encoder's file, and return its path.

    Its input `image` is float32 (N, K, H, W) in [0, 1], of the size that the encoder was evaluated on; its output is
    `features` (N, F). N is free.

    Args:
        path: a run directory, or its encoder.safetensors alone.

    Raises:
        ConfigError: the packages of the extra `export` are not installed, the network has a part that ONNX lacks, or
            `load_encoder` refuses the file.
    """
    file = weights_path(path)
    network, example = load_from_pixels(file)
    target = file.with_suffix(".onnx")
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            program = torch.onnx.export(
                network,
                (example,),
                input_names=["image"],
                output_names=["features"],
                dynamic_shapes=SHAPES,
                dynamo=True,
            )
    except ImportError as error:
        raise ConfigError(f"ONNX needs a package ({error}): try pip install onnx onnxscript onnxruntime") from error
    except RuntimeError as error:
        raise ConfigError(
            f"torch cannot write this network as ONNX ({reason(error)}): "
            "try encoder.safetensors with contrastive.load_encoder"
        ) from error
    assert program is not None
    with atomic(target) as part:
        program.save(part)
    return target
