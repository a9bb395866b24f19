"""What the page of a run shows of its features: computed once, from the images that the run was judged on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.config.compose import importable
from contrastive.config.mistaken import DATASET_PATHS
from contrastive.config.targets import check_targets
from contrastive.errors import ConfigError
from contrastive.evaluator.knn import KNN, at_most_a_tenth, nearest, vote
from contrastive.experiment.build import load_data
from contrastive.experiment.encoder import open_encoder
from contrastive.experiment.machine import start_device
from contrastive.run.run import Run
from contrastive.training.features import extract
from contrastive.training.precision import Normalize
from contrastive.training.progress import announced
from contrastive.types import Data, unit

N_NEIGHBORS = 10


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The test images of a run by its nearest neighbors.

    Attributes:
        h: (N, F) features of the test images, on the CPU.
        neighbors: (N, at most 10) training images with the nearest features, rows of `data.pretrain`.
        share: (N, C) of the neighbors' votes by class, as the evaluator `knn` of the run counts them; C = 0 without
            labels.
    """

    data: Data
    h: Tensor
    neighbors: Tensor
    share: Tensor

    @property
    def guess(self) -> Tensor:
        """(N,) class of the most votes."""
        return self.share.argmax(1)

    @property
    def wrong(self) -> Tensor:
        """(n,) test images with a label that is not the guess; fewest votes for the label first."""
        label = self.data.test.label.cpu()
        rows = ((label >= 0) & (self.guess != label)).nonzero().squeeze(1)
        return rows[self.share[rows, label[rows]].argsort(stable=True)]


def images_judged(run: Run) -> str:
    """The images that a run was judged on, in words."""
    return "test images" if run.config.get("held_out") is None else "held-out training images"


def run_data(run: Run, *, folders: Sequence[Path] = ()) -> Data:
    """The data of a run.

    Args:
        folders: of modules that the configuration may name.

    Raises:
        ConfigError: they are not there, are others than those that the run was judged on, or the configuration names
            something that is no dataset.
    """
    node = run.config["dataset"]
    places = [key for key in DATASET_PATHS if key != "dataset.cache" and node.get(key.removeprefix("dataset."))]
    with importable(folders):
        check_targets({"dataset": node}, folders)
        try:
            data, data_hash, _ = load_data(node, run.config.get("held_out"))
        except ConfigError as error:
            gone = [f"{key}=PATH" for key in places if not Path(str(node[key.removeprefix("dataset.")])).exists()]
            if not gone:
                raise
            raise ConfigError(f"the data of {run.path} are elsewhere now: try {' '.join(gone)}") from error
    if data_hash != run.environment["data"]:
        elsewhere = f"{places[0]}=PATH, where the same images are, or " if places else ""
        raise ConfigError(f"the data of {run.path} changed since it ran: try {elsewhere}its command with rerun=true")
    return data


def judged(run: Run, *, device: str = "auto", folders: Sequence[Path] = ()) -> Judged:
    """Encode the images of a run, and let their neighbors vote.

    Args:
        folders: as of `run_data`.

    Raises:
        ConfigError: the weights are gone, or see `run_data`.
    """
    data, chosen = run_data(run, folders=folders), start_device(device)
    encoder, transform = open_encoder(run.path, folders)
    encoder, normalize = encoder.to(chosen), Normalize(transform.mean, transform.std, device=chosen)
    rows = (data.pretrain.label.cpu() >= 0).nonzero().squeeze(1) if data.classes else torch.arange(len(data.pretrain))
    with announced("encoding the images"):
        bank, test = extract(encoder, data.pretrain, normalize, rows), extract(encoder, data.test, normalize)
    knn = knn_of(run.config["evaluator"].get("knn", {}))
    k = at_most_a_tenth(knn.k, bank)
    similarity, index = (found.cpu() for found in nearest(bank.h, test.h, min(max(k, N_NEIGHBORS), len(rows))))
    share = torch.zeros(len(test.h), 0)
    if data.classes:
        label = bank.label.cpu()[index[:, :k]]
        votes = vote(similarity[:, :k], label, n_classes=len(data.classes), temperature=knn.temperature)
        share = votes / votes.sum(1, keepdim=True)
    return Judged(data=data, h=test.h.cpu(), neighbors=rows[index[:, :N_NEIGHBORS]], share=share)


def knn_of(node: dict[str, Any]) -> KNN:
    """The evaluator `knn` of a run; that of train.py where it had none."""
    return KNN(**{key: node[key] for key in ("k", "temperature") if key in node})


def plane(h: Tensor) -> Tensor:
    """(N, 2), the principal components of features (N, F) scaled to length 1."""
    x = unit(h.double())
    x = x - x.mean(0)
    xy = x @ torch.linalg.svd(x, full_matrices=False).Vh[:2].T
    return F.pad(xy, (0, 2 - xy.shape[1]))  # a single image has one component
