"""Fine-tuning: all weights, from a fraction of the labels."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.errors import check_between
from contrastive.evaluator.base import Evaluator, FeatureSets, Images, Scores, accuracies, progress, topk_accuracy
from contrastive.evaluator.few import draw_labels, in_percent
from contrastive.evaluator.published import linear_layer
from contrastive.seeding import derive, generator

CHUNK = 500  # images of a forward pass without gradient


@dataclass(kw_only=True)
class FineTune(Evaluator):
    """Test accuracy of a copy of the encoder with a linear layer, all weights trained on a fraction of the labels.

    After Chen et al. 2020 (§6 and B.5, recalled): SGD with Nesterov momentum, cropped and flipped images, the same
    fraction of the labels of every class, at least one image. The learning rate falls along a cosine. Every learning
    rate is tried on all validation images. These are a tenth of the training split for every fraction, so the choice
    uses ten times as many labels as 1 %. `test` is read once, with the best of them (the first of equals). All draws
    have fixed seeds, and the encoder of the run does not change.

    Args:
        fractions: of the nine tenths of the training images that probes fit, each in (0, 1].
        lr: learning rates to try, each above 0.
        momentum: in (0, 1).
        weight_decay: at least 0.
        epochs: passes over the labeled images, at least 1.
        min_steps: minimum number of updates.
        batch_size: at least 2; the images left over join others.
        scale: (least, most) share of the area that a crop shows.
        flip: probability.

    Raises:
        ConfigError: features without images.
    """

    before_training = False  # it trains longer than it takes to pretrain a small network
    reads_images = True

    fractions: tuple[float, ...] = (0.01, 0.1)
    lr: tuple[float, ...] = (0.1, 0.01)
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: int = 30
    min_steps: int = 200
    batch_size: int = 128
    scale: tuple[float, float] = (0.2, 1.0)
    flip: float = 0.5

    def __post_init__(self) -> None:
        check_between("evaluator.fine_tune.fractions", self.fractions, 0, 1, exclude=(0,), example="[0.01,0.1]")
        self.augmentation = Compose(ops={"crop": RandomResizedCrop(scale=self.scale, flip=self.flip)})
        shares = " and ".join(f"{100 * fraction:g} %" for fraction in self.fractions)
        self.protocol = (
            f"all weights and a linear layer, {shares} of the labels of each class, SGD with Nesterov momentum "
            f"{self.momentum:g} and cosine schedule, {self.epochs} epochs (at least {self.min_steps} steps) of batches "
            f"of {self.batch_size}, crop and flip (Chen et al. 2020); lr of {', '.join(f'{x:g}' for x in self.lr)} "
            "chosen on probe_val; last epoch of the run"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        source = features.images_for("fine_tune")
        scores, label = Scores(), features.val.label
        subsets = [draw_labels(features.train.label, fraction, draw=0) for fraction in self.fractions]
        steps = sum(self._n_steps(len(rows)) for rows in subsets) * len(self.lr)
        with progress(steps, "fine_tune") as bar:
            for fraction, rows in zip(self.fractions, subsets, strict=True):
                networks = [self._trained(features, source, rows, lr=lr, bar=bar) for lr in self.lr]
                val = [topk_accuracy(_scores(network, source, "val", label), label, 1) for network in networks]
                best, name = max(val), in_percent(fraction)
                test = _scores(networks[val.index(best)], source, "test", features.test.label)
                scores.val[f"{name}_top1"] = best
                for key, value in accuracies(test, features.test.label).items():
                    scores.test[f"{name}_{key}"] = value
                scores.predictions[name] = test.argmax(1)
        return scores

    def _trained(self, features: FeatureSets, source: Images, rows: Tensor, *, lr: float, bar: tqdm) -> nn.Module:
        """A copy of the encoder with a linear layer, trained on the rows of `train` with one learning rate."""
        device, dim = source.device, features.test.h.shape[1]
        layer = linear_layer(dim, features.n_classes, rng=generator("cpu", "fine tune layer"), device=device)
        network = nn.Sequential(source.copy(), layer).train()
        optimizer = torch.optim.SGD(
            network.parameters(), lr=lr, momentum=self.momentum, weight_decay=self.weight_decay, nesterov=True
        )
        label = features.train.label
        steps, n_batches = self._n_steps(len(rows)), self._n_batches(len(rows))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(derive("fine tune", lr))  # of layers that draw, such as dropout
            for step in range(steps):
                epoch, i = divmod(step, n_batches)
                order = torch.randperm(len(rows), generator=generator("cpu", "fine tune order", epoch)).to(rows.device)
                batch, rng = rows[order].tensor_split(n_batches)[i], generator(device, "fine tune views", step)
                optimizer.param_groups[0]["lr"] = lr * (1 + math.cos(math.pi * step / steps)) / 2
                optimizer.zero_grad()
                views = source.views(batch, self.augmentation, rng)
                F.cross_entropy(network(views), label[batch].to(device)).backward()
                optimizer.step()
                bar.update()
        return network

    def _n_steps(self, n: int) -> int:
        """Updates of one training on n images."""
        return max(self.epochs * self._n_batches(n), self.min_steps)

    def _n_batches(self, n: int) -> int:
        """Batches of an epoch over n images, each of batch_size images or more."""
        return max(1, n // self.batch_size)


@torch.no_grad()
def _scores(network: nn.Module, source: Images, split: str, label: Tensor) -> Tensor:
    """(n, C): the network's logits of a split, where its labels (n,) are."""
    network.eval()
    rows = torch.arange(len(label)).split(CHUNK)
    return torch.cat([network(source.plain(split, part)).float() for part in rows]).to(label.device)
