"""Views of whole images: what an augmentation and a run need, so that each is cropped from its own height and width."""

from dataclasses import replace

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.config.settings import Settings
from contrastive.errors import ConfigError
from contrastive.experiment.components import image_size


def with_frames(augmentation: Augmentation, settings: Settings) -> Augmentation:
    """The augmentation for whole images where `dataset.frame` asks for them: a first crop without a size has that of
    the dataset, because the frame is none.

    Raises:
        ConfigError: the first operation is no RandomResizedCrop, or a setting that needs images of one size.
    """
    size = image_size(settings.dataset)
    if size is None or settings.dataset.get("frame") is None:
        return augmentation
    ops = augmentation.ops if isinstance(augmentation, Compose) else {}
    name, first = next(iter(ops.items()), ("", None))
    for is_refused, sentence in (
        (not isinstance(first, RandomResizedCrop), "needs a RandomResizedCrop first: try augmentation=simclr"),
        (settings.noise_frac > 0, "and noise_frac cannot go together: try noise_frac=0"),
        (settings.blur_frac > 0, "and blur_frac cannot go together: try blur_frac=0"),
        (settings.resident is True, "reads images as they are stored: try resident=auto"),
    ):
        if is_refused:
            raise ConfigError(f"dataset.frame {sentence}, or dataset.frame=null")
    assert isinstance(first, RandomResizedCrop)
    return Compose(ops={**ops, name: replace(first, size=first.size or size)})
