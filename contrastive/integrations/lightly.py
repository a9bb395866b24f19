"""Any loss of this package in the place of lightly's NTXentLoss, with its memory bank."""

from collections.abc import Sequence

from lightly.models.modules.memory_bank import MemoryBankModule
from torch import Tensor, nn

from contrastive.loss.base import Loss
from contrastive.types import unit


class PairLoss(nn.Module):
    """`PairLoss(DebiasedPos())(out0, out1)`, as lightly's loops call NTXentLoss.

    Args:
        loss: of this package.
        memory_bank_size: (number, dimension) of outputs kept of earlier batches: the loss of MoCo, in which out1 is of
            the network that follows and the bank has all negatives. 0 for none: the batch has them, as in SimCLR.
        gather_distributed: take the batches of all processes together.
    """

    def __init__(
        self, loss: Loss, *, memory_bank_size: int | Sequence[int] = 0, gather_distributed: bool = False
    ) -> None:
        super().__init__()
        self.loss, self.gather_distributed = loss, gather_distributed
        self.memory_bank = MemoryBankModule(size=memory_bank_size, gather_distributed=gather_distributed)

    def forward(self, out0: Tensor, out1: Tensor) -> Tensor:
        out1, bank = self.memory_bank(unit(out1), update=out0.requires_grad)  # the bank before this batch, (D, K)
        if bank is None:
            value: Tensor = self.loss(out0, out1, gather=self.gather_distributed)
        else:
            value = self.loss(out0, out1, across="first", memory=bank.T.to(out0.device), memory_only=True)
        return value
