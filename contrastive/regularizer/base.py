"""Regularizer, the base class of terms that need more than a loss has: a second batch, or a second update."""

from torch import Tensor

from contrastive.loss.base import Loss


class Regularizer(Loss):
    """A loss added to the loss of a run, on a batch of its own or with an update of its own.

    Any Loss can be a regularizer. Only one that sets an attribute of this class must inherit from it:

    second_batch: `uniform` for a batch of its own, drawn uniformly whatever the sampler, without augmentation in one
        view (see training/objective.py); None = the batch of the loss.
    second_batch_size: images of that batch, of all processes together; None = as many as the loss reads.
    is_adversarial: a second update on the same views, with `adversarial`, follows the one with the value.
    """

    second_batch: str | None = None
    second_batch_size: int | None = None
    is_adversarial = False

    def adversarial(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        """The scalar of the second update, where `is_adversarial`; z is embedded anew after the first one."""
        raise NotImplementedError
