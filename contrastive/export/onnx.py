"""An encoder as ONNX, with the normalization of its images inside."""

import contextlib
import io
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.experiment.encoder import load_encoder
from contrastive.files import atomic
from contrastive.run.files import weights_path


class _FromPixels(nn.Module):
    """Images in [0, 1] of the encoder's size → features."""

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None].clamp(min=1e-6))

    def forward(self, image: Tensor) -> Tensor:
        features: Tensor = self.encoder((image - self.mean) / self.std)
        return features


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
    encoder, transform = load_encoder(file)
    target = file.with_suffix(".onnx")
    example = torch.rand(2, len(transform.mean), *transform.size)
    network = _FromPixels(encoder, transform.mean, transform.std).eval()
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            program = torch.onnx.export(
                network,
                (example,),
                input_names=["image"],
                output_names=["features"],
                dynamic_shapes={"image": {0: torch.export.Dim("N")}},
                dynamo=True,
            )
    except ImportError as error:
        raise ConfigError(f"ONNX needs a package ({error}): try pip install onnx onnxscript onnxruntime") from error
    except RuntimeError as error:
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise ConfigError(
            f"torch cannot write this network as ONNX ({reason}): try encoder.safetensors with contrastive.load_encoder"
        ) from error
    assert program is not None
    with atomic(target) as part:
        program.save(part)
    return target
