"""Any loss of this package as a loss of sentence-transformers."""

from collections.abc import Collection, Iterable
from inspect import signature
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from contrastive.errors import ConfigError
from contrastive.gathering import gather, shard_of
from contrastive.loss.base import Loss

CITATION = """
@software{contrastive,
  title = {contrastive: (de)biased contrastive representation learning in {PyTorch}},
  author = {{the contrastive authors}}
}
"""


DIRECTIONS = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
OF_ACROSS = {"first": DIRECTIONS[:1], "both": (DIRECTIONS[0], DIRECTIONS[2])}


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
        directions: in place of `across`, what is compared: `query_to_doc` and any of `query_to_query`, `doc_to_query`,
            `doc_to_doc`. The loss is the mean over the kinds of anchors, queries and documents, each against all that
            it is compared with. ("query_to_doc", "query_to_query") is theirs with partition_mode="joint". Their joint
            softmax over several kinds of anchors (GTE) is no loss of one anchor, and not here.
        mini_batch_size: sentences of a column that are embedded at once, by gradient caching (Gao et al. 2021): each
            mini-batch is embedded again, with the same dropout, when its gradient comes back. Columns are padded, not
            flattened, and MatryoshkaLoss does not wrap it. None = whole columns.
        gather_across_devices: take the batches of all processes together.

    Raises:
        ConfigError: a single column for a loss that compares two, or directions that are not such.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: Loss,
        *,
        across: str | None = "first",
        directions: Collection[str] = (),
        mini_batch_size: int | None = None,
        gather_across_devices: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self.across, self.gather_across_devices = across, gather_across_devices
        self.directions = tuple(directions) or OF_ACROSS.get(across or "", ())
        self.mini_batch_size = mini_batch_size
        if directions and not (
            {"query_to_doc"} <= {*directions} <= {*DIRECTIONS}
            and ("doc_to_query" in directions or "doc_to_doc" not in directions)
        ):
            raise ConfigError(
                f"directions are query_to_doc and any of {', '.join(DIRECTIONS[1:])}, doc_to_doc beside doc_to_query, "
                f"got {', '.join(directions)}: try directions=('query_to_doc', 'query_to_query')"
            )

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
        hard = torch.cat(negatives) if negatives else None
        if not self.directions or (hard is None and self.directions in OF_ACROSS.values()):
            across = self.across if not self.directions else "both" if len(self.directions) == 2 else "first"
            memory = None if hard is None else self._gathered(hard)
            return self._value(torch.stack([first, document], 1), labels, across=across, memory=memory)
        ids = shard_of().rank * len(first) + torch.arange(len(first), device=first.device)
        # a query is compared with all hard negatives, a document with those of other queries
        further = [] if hard is None else [(hard, ids.new_full((len(hard),), -1))]
        further += [(first, ids)] if "query_to_query" in self.directions else []
        values = [self._from(first, document, labels, ids, further)]
        if "doc_to_query" in self.directions:
            own = [(each, ids) for each in others] if "doc_to_doc" in self.directions else []
            values.append(self._from(document, first, labels, ids, own))
        return torch.stack(values).mean()

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

    def _gathered(self, x: Tensor) -> Tensor:
        return gather(x) if self.gather_across_devices else x

    def _from(
        self, anchor: Tensor, other: Tensor, labels: Tensor | None, ids: Tensor, further: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """The value of anchors (B, D) against those of the other kind and further candidates, but for equal ids."""
        z = torch.stack([anchor, other], 1)
        if not further:
            return self._value(z, labels, across="first")
        memory, memory_ids = (self._gathered(torch.cat(each)) for each in zip(*further, strict=True))
        if (memory_ids == -1).all():  # no candidate is left out, so a loss without ids will do
            return self._value(z, labels, across="first", memory=memory)
        return self._value(z, labels, across="first", memory=memory, ids=ids, memory_ids=memory_ids)

    def _value(self, z: Tensor, labels: Tensor | None, *, across: str | None, **candidates: Tensor | None) -> Tensor:
        value: Tensor = self.loss(
            z,
            label=labels if self.loss.needs_label else None,
            across=across,
            gather=self.gather_across_devices,
            **candidates,
        )
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says of the loss."""
        own = {name: vars(self.loss)[name] for name in signature(type(self.loss)).parameters if name in vars(self.loss)}
        names = ("across", "directions", "mini_batch_size", "gather_across_devices")
        whole = {name: getattr(self, name) for name in names}
        return {"loss": self.loss.name, **own, **whole}

    @property
    def citation(self) -> str:
        """BibTeX for the model card."""
        return CITATION
