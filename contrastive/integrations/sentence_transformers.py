"""Any loss of this package as a loss of sentence-transformers."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from contrastive.gathering import gather
from contrastive.loss.base import Loss

CITATION = """
@software{contrastive,
  title = {contrastive: (de)biased contrastive representation learning in {PyTorch}},
  author = {{the contrastive authors}}
}
"""


class PairLoss(nn.Module):
    """A contrastive loss of (anchor, positive) and of (anchor, positive, hard negatives ...), for
    `SentenceTransformerTrainer(loss=PairLoss(model, DebiasedPos(temperature=0.05)))`.

    With NTXent(temperature=0.05) it is MultipleNegativesRankingLoss(scale=20), and of pairs with `across="both"` the
    mean of its two directions.

    Args:
        model: embeds the columns.
        loss: of this package. A loss with labels reads the column `label`, and may have a single column of sentences.
        across: `first`, anchors against positives; `both`, the mean of both directions; None, two views of one
            sentence (SimCSE).
        gather_across_devices: take the batches of all processes together.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: Loss,
        *,
        across: str | None = "first",
        gather_across_devices: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self.across, self.gather_across_devices = across, gather_across_devices

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None) -> Tensor:
        columns: list[Tensor] = [self.model(features)["sentence_embedding"] for features in sentence_features]
        negatives = torch.cat(columns[2:]) if len(columns) > 2 else None
        if negatives is not None and self.gather_across_devices:
            negatives = gather(negatives)
        value: Tensor = self.loss(
            torch.stack(columns[:2], 1),
            label=labels if self.loss.needs_label else None,
            across=self.across if len(columns) > 1 else None,
            memory=negatives,
            gather=self.gather_across_devices,
        )
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says of the loss."""
        own = {name: vars(self.loss)[name] for name in signature(type(self.loss)).parameters if name in vars(self.loss)}
        whole = {"across": self.across, "gather_across_devices": self.gather_across_devices}
        return {"loss": self.loss.name, **own, **whole}

    @property
    def citation(self) -> str:
        """BibTeX for the model card."""
        return CITATION
