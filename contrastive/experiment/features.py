"""What evaluators read of an encoder: features of every split, and access to images and to other datasets."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.config.paths import options
from contrastive.errors import ConfigError
from contrastive.evaluator.base import EncoderWithImages, FeatureSets
from contrastive.experiment.components import build_one
from contrastive.experiment.make import component_node
from contrastive.training.features import AugmentedFeatures, extract_feature_sets
from contrastive.types import Data


def feature_sets(
    encoder: nn.Module,
    data: Data,
    *,
    normalize: Callable[[Tensor], Tensor],
    augmentation: Augmentation,
    seed: int,
    data_root: str,
    classifier: Callable[[Tensor], Tensor] | None = None,
) -> FeatureSets:
    """Features of the encoder as it stands.

    Args:
        normalize: images → the encoder's input. augmentation, seed: those of the run. data_root: of other datasets.
        classifier: (N, F) → (N, C) logits, if a loss trained one along.
    """

    def transfer(name: str) -> FeatureSets:
        other = load_other_data(name, size=data.test.image.shape[-1], data_root=data_root)
        return extract_feature_sets(encoder, other, normalize)

    labeled = (data.pretrain.label >= 0).nonzero().squeeze(1)
    return replace(
        extract_feature_sets(encoder, data, normalize, classifier),
        augmented=AugmentedFeatures(
            encoder, data.pretrain, labeled, augmentation=augmentation, normalize=normalize, seed=seed
        ),
        encoder=EncoderWithImages(encoder, data, normalize),
        transfer=transfer,
    )


def load_other_data(name: str, *, size: int, data_root: str) -> Data:
    """A dataset by the name of its YAML, or the image folder at a path, with images of `size` pixels.

    Raises:
        ConfigError: there is no such dataset, its files are missing, it cannot have that size, or it has no labels.
    """
    known = [option for option in options("dataset") if option != "image_folder"]
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
    data: Data = build_one("dataset", node, Data)
    if not data.classes:
        raise ConfigError(f"the images in {name} have no labels: try evaluator.transfer.datasets=[digits]")
    return data
