"""Any loss of this package in the place of open_clip's ClipLoss or SigLipLoss, with the scale that the loop learns."""

import torch
from torch import Tensor, nn

from contrastive.loss.base import SelfSupervisedLoss
from contrastive.loss.sigmoid import Sigmoid


class ClipLoss(nn.Module):
    """`ClipLoss(DebiasedPos(tau_plus=0.01))(image_features, text_features, logit_scale)`, called as open_clip's losses.

    With NTXent it is open_clip.loss.ClipLoss, with Sigmoid open_clip.loss.SigLipLoss, values and gradients, those of
    logit_scale and logit_bias included. A Sigmoid's own bias is not used, as no optimizer of open_clip has it: with a
    model without logit_bias it is 0, as there.

    Args:
        loss: of this package; its temperature is 1 / logit_scale, from the call.
        across: `both`, or `first` for images against texts alone.
        gather: take the batches of all processes together, exactly: as local_loss and gather_with_grad of open_clip.
    """

    def __init__(self, loss: SelfSupervisedLoss, *, across: str = "both", gather: bool = True) -> None:
        super().__init__()
        self.loss, self.across, self.gather = loss, across, gather

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
    ) -> Tensor | dict[str, Tensor]:
        self.loss.temperature = 1 / logit_scale
        learned = {}
        if isinstance(self.loss, Sigmoid):
            learned["bias"] = torch.zeros((), device=image_features.device) if logit_bias is None else logit_bias
        call = {"across": self.across, "gather": self.gather}
        value: Tensor = torch.func.functional_call(self.loss, learned, (image_features, text_features), call)
        if isinstance(logit_scale, Tensor):
            self.loss.temperature = 1 / logit_scale.detach()  # which keeps no graph alive
        return {"contrastive_loss": value} if output_dict else value
