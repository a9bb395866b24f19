"""Any loss of this package as a loss of sentence-transformers."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from contrastive.errors import ConfigError
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

    With NTXent(temperature=0.05) it is MultipleNegativesRankingLoss(scale=20), and with `across="both"` that with
    directions=("query_to_doc", "doc_to_query") and partition_mode="per_direction".

    Args:
        model: embeds the columns.
        loss: of this package. A loss with labels reads the column `label`, and may have a single column of sentences.
        across: `first`, anchors against positives and hard negatives; `both`, the mean of that and of positives against
            anchors; None, two views of one sentence, all others of the batch against them. Then a single column is
            embedded twice, each time with a dropout of its own. (SimCSE compares first views with second ones alone:
            that is a column given twice, and `first`.)
        gather_across_devices: take the batches of all processes together.

    Raises:
        ConfigError: a single column, and `across` for a loss that compares two.
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
        features = list(sentence_features)
        if len(features) == 1 and self.loss.min_views > 1:
            if self.across is not None:
                raise ConfigError(
                    f"{self.loss.name} compares two columns and the dataset has one: try a column of positives, "
                    "or PairLoss(model, loss, across=None)"
                )
            features = [features[0], dict(features[0])]
        first, *others = [self.model(column)["sentence_embedding"] for column in features]
        if not others:
            return self._value(first[:, None], labels, across=None)
        positive, *negatives = others
        memory = torch.cat(negatives) if negatives else None
        if memory is not None and self.gather_across_devices:
            memory = gather(memory)
        if self.across != "both" or memory is None:
            return self._value(torch.stack([first, positive], 1), labels, across=self.across, memory=memory)
        # hard negatives are documents, which no document is compared with
        backward = self._value(torch.stack([positive, first], 1), labels, across="first")
        return (self._value(torch.stack([first, positive], 1), labels, across="first", memory=memory) + backward) / 2

    def _value(self, z: Tensor, labels: Tensor | None, *, across: str | None, memory: Tensor | None = None) -> Tensor:
        value: Tensor = self.loss(
            z,
            label=labels if self.loss.needs_label else None,
            across=across,
            memory=memory,
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
