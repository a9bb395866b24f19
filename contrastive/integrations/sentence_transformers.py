"""Any loss of this package as a loss of sentence-transformers."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from contrastive.errors import ConfigError
from contrastive.gathering import gather
from contrastive.loss.base import Loss


class PairLoss(nn.Module):
    """A contrastive loss of (anchor, positive) and of (anchor, positive, hard negatives ...), for
    `SentenceTransformerTrainer(loss=PairLoss(model, DebiasedPos(temperature=0.05)))`.

    With NTXent(temperature=0.05) it is MultipleNegativesRankingLoss(scale=20), and with `across="both"` that with
    directions=("query_to_doc", "doc_to_query") and partition_mode="per_direction". With a `mini_batch_size` these are
    CachedMultipleNegativesRankingLoss.

    Args:
        model: embeds the columns.
        loss: of this package. A loss with labels reads the column `label`, and may have a single column of sentences.
        across: `first`, anchors against positives and hard negatives; `both`, the mean of that and of positives against
            anchors; None, two views of one sentence, all others of the batch against them. Then a single column is
            embedded twice, each time with a dropout of its own. (SimCSE compares first views with second ones alone:
            that is a column given twice, and `first`.)
        mini_batch_size: sentences of a column that are embedded at once, by gradient caching (Gao et al. 2021): each
            mini-batch is embedded again, with the same dropout, when its gradient comes back. Columns are padded, not
            flattened, and MatryoshkaLoss does not wrap it. None = whole columns.
        gather_across_devices: take the batches of all processes together.

    Raises:
        ConfigError: a single column for a loss that compares two.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: Loss,
        *,
        across: str | None = "first",
        mini_batch_size: int | None = None,
        gather_across_devices: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self.across, self.gather_across_devices = across, gather_across_devices
        self.mini_batch_size = mini_batch_size

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None) -> Tensor:
        features = list(sentence_features)
        if len(features) == 1 and self.loss.min_views > 1:
            if self.across is not None:
                raise ConfigError(
                    f"{self.loss.name} compares two columns and the dataset has one: try a column of positives, "
                    "or PairLoss(model, loss, across=None)"
                )
            features = [features[0], dict(features[0])]
        first, *others = [self._embedded(column) for column in features]
        if not others:
            return self._value(first[:, None], labels, across=None)
        document, *negatives = others
        z = torch.stack([first, document], 1)
        if not negatives:
            return self._value(z, labels, across=self.across)
        memory = torch.cat(negatives)
        memory = gather(memory) if self.gather_across_devices else memory
        if self.across != "both":
            return self._value(z, labels, across=self.across, memory=memory)
        # documents are compared with queries alone, as there
        one_way = self._value(z, labels, across="first", memory=memory)
        return (one_way + self._value(z.flip(1), labels, across="first")) / 2

    def _embedded(self, column: dict[str, Tensor]) -> Tensor:
        """The embeddings of a column (B, D), of a mini-batch at a time."""
        if self.mini_batch_size is None:
            return self._sentences(column)
        n, size = next(len(value) for value in column.values() if isinstance(value, Tensor)), self.mini_batch_size
        parts = [
            {key: value[i : i + size] if isinstance(value, Tensor) else value for key, value in column.items()}
            for i in range(0, n, size)
        ]
        return torch.cat([checkpoint(self._sentences, part, use_reentrant=False) for part in parts])

    def _sentences(self, column: dict[str, Tensor]) -> Tensor:
        embedding: Tensor = self.model(dict(column))["sentence_embedding"]  # a copy: models add what they compute
        return embedding

    def _value(self, z: Tensor, labels: Tensor | None, *, across: str | None, memory: Tensor | None = None) -> Tensor:
        label = labels if self.loss.needs_label else None
        value: Tensor = self.loss(z, label=label, across=across, memory=memory, gather=self.gather_across_devices)
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says of the loss."""
        own = {name: vars(self.loss)[name] for name in signature(type(self.loss)).parameters if name in vars(self.loss)}
        names = ("across", "mini_batch_size", "gather_across_devices")
        whole = {name: getattr(self, name) for name in names}
        return {"loss": self.loss.name, **own, **whole}
