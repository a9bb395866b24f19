"""An encoder as a program with the normalization of its images inside: as ONNX, or as one that torch alone loads."""

import contextlib
import io
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.experiment.encoder import open_encoder
from contrastive.files import atomic
from contrastive.run.files import weights_path
from contrastive.run.weights import read_weights

TOLD = ("image_size", "mean", "std", "classes")  # in an ONNX file's metadata, as JSON
SHAPES = {"image": {0: torch.export.Dim("N")}}  # what of an exported graph is free


class FromPixels(nn.Module):
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


def export_onnx(path: str | Path, folders: Sequence[Path] = ()) -> Path:
    """Write encoder.onnx beside the encoder's file, and return its path.

    Its input `image` is float32 (N, K, H, W) in [0, 1], of the size that the encoder was evaluated on; its output is
    `features` (N, F). N is free. onnxruntime's `get_modelmeta().custom_metadata_map` has size, mean, std and classes.

    Args:
        path: a run directory, or its encoder.safetensors alone.
        folders: of the module of a network of one's own.

    Raises:
        ConfigError: the packages of the extra `export` are not installed, the network has a part that ONNX lacks, or
            `load_encoder` refuses the file.
    """
    target = weights_path(path).with_suffix(".onnx")
    network, example = _traceable(path, folders)
    with _explained("ONNX"), warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            network, (example,), input_names=["image"], output_names=["features"], dynamic_shapes=SHAPES, dynamo=True
        )
    assert program is not None
    metadata = read_weights(weights_path(path))[1]
    program.model.metadata_props.update({name: json.dumps(metadata[name]) for name in TOLD})
    with atomic(target) as part:
        program.save(part)
    return target


def export_pt2(path: str | Path, folders: Sequence[Path] = ()) -> Path:
    """Write encoder.pt2 beside the encoder's file, and return its path.

        encoder = torch.export.load("encoder.pt2").module()
        features = encoder(image)  # float32 (N, K, H, W) in [0, 1] of the encoder's size → (N, F)

    Args:
        path: a run directory, or its encoder.safetensors alone.
        folders: of the module of a network of one's own.

    Raises:
        ConfigError: the network cannot be traced, or `load_encoder` refuses the file.
    """
    target = weights_path(path).with_suffix(".pt2")
    network, example = _traceable(path, folders)
    with _explained("a program of torch.export"):
        program = torch.export.export(network, (example,), dynamic_shapes=SHAPES)
    with atomic(target) as part, part.open("wb") as out:
        torch.export.save(program, out)
    return target


def _traceable(path: str | Path, folders: Sequence[Path]) -> tuple[FromPixels, Tensor]:
    """The network of an encoder's file, in eval mode, and two images to trace it with."""
    encoder, transform = open_encoder(weights_path(path), folders)
    example = torch.rand(2, len(transform.mean), *transform.size)
    return FromPixels(encoder, transform.mean, transform.std).eval(), example


@contextlib.contextmanager
def _explained(kind: str) -> Iterator[None]:
    """Turn what torch raises at a network that it cannot write, or for want of a package, into one sentence."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{kind} needs a package ({error}): try pip install onnx onnxscript onnxruntime") from error
    except RuntimeError as error:
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise ConfigError(
            f"torch cannot write this network as {kind} ({reason}): "
            "try encoder.safetensors with contrastive.load_encoder"
        ) from error
