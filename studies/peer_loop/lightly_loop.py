"""SimCLR as lightly's users write it, of lightly's own parts alone, on the images of plan.yaml; the figures are JSON.

    pip install 'lightly>=1.6'
    python studies/peer_loop/lightly_loop.py data/cifar10_jpeg outputs/lightly.json

The recipe is that of lightly's benchmark of CIFAR-10 at batch 128, with a quarter of the channels. A seed that the JSON
has is not run again. Only the arithmetic is set from here: the code that `reproducible=true` chooses, on one thread.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightly
import torch
import torch.nn.functional as F
import torchvision
from lightly.data import LightlyDataset
from lightly.loss import NTXentLoss
from lightly.models import ResNetGenerator
from lightly.models.modules.heads import SimCLRProjectionHead
from lightly.transforms import SimCLRTransform
from lightly.transforms.utils import IMAGENET_NORMALIZE
from lightly.utils.benchmarking import knn_predict
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchvision.transforms import Compose, Normalize, ToTensor

from contrastive.distributed.hardware import fix_instructions, processor

CLASSES, WIDTH, BATCH = 10, 0.25, 128


def main() -> None:
    """Run the seeds that OUT does not have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of train/<class>/ and test/<class>/")
    parser.add_argument("out", type=Path, help="JSON")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--every", type=int, default=5, help="epochs between figures of kNN")
    parser.add_argument("--per-class", type=int, default=1000, help="training images of each class, the first by name")
    words = parser.parse_args()
    fix_instructions()
    torch.set_num_threads(1)
    record = json.loads(words.out.read_text()) if words.out.exists() else described(words)
    if {**described(words), "runs": record["runs"]} != record:
        parser.error(f"{words.out} has runs of another kind: try another OUT")
    for seed in (seed for seed in words.seeds if seed not in [run["seed"] for run in record["runs"]]):
        record["runs"].append(trained(words, seed))
        words.out.write_text(json.dumps(record, indent=1) + "\n")


def described(words: argparse.Namespace) -> dict[str, Any]:
    """What all runs of a JSON share."""
    versions = {package.__name__: package.__version__ for package in (lightly, torch, torchvision)}
    own = {"epochs": words.epochs, "per_class": words.per_class, "batch_size": BATCH, "width": WIDTH}
    return {**versions, "processor": processor(torch.device("cpu")), **own, "runs": []}


def trained(words: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train from one seed: kNN accuracy by epoch, from 0, the mean loss of each epoch, and views per second."""
    torch.manual_seed(seed)
    plain = Compose([ToTensor(), Normalize(**IMAGENET_NORMALIZE)])
    twice = SimCLRTransform(input_size=32, cj_strength=0.5, gaussian_blur=0.0)
    views = DataLoader(images(words, "train", twice), batch_size=BATCH, shuffle=True, drop_last=True)
    bank, test = (DataLoader(images(words, part, plain), batch_size=500) for part in ("train", "test"))
    # all layers but the last in a row, as in the benchmark: so the network has no ReLU before its first block
    layers = list(ResNetGenerator("resnet-18", width=WIDTH).children())[:-1]
    backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(backbone, SimCLRProjectionHead(int(512 * WIDTH), 512, 128))
    criterion = NTXentLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, words.epochs)
    knn, loss, seconds = {0: accuracy(backbone, bank, test)}, list[float](), 0.0
    print(f"seed {seed}, untrained: kNN {knn[0]:.2f}", flush=True)
    for epoch in range(1, words.epochs + 1):
        start, losses = time.perf_counter(), list[float]()
        for (x0, x1), _, _ in views:
            value = criterion(model(x0), model(x1))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            losses.append(value.item())
        schedule.step()
        seconds += time.perf_counter() - start
        loss.append(round(sum(losses) / len(losses), 4))
        if epoch % words.every == 0 or epoch == words.epochs:
            knn[epoch] = accuracy(backbone, bank, test)
        print(f"epoch {epoch}: loss {loss[-1]}, kNN {knn.get(epoch, '')}, {seconds:.0f} s", flush=True)
    n_views = words.epochs * len(views) * BATCH * 2
    return {"seed": seed, "knn_top1": knn, "loss": loss, "views_per_second": round(n_views / seconds)}


def images(words: argparse.Namespace, part: str, transform: Any) -> Any:
    """lightly's dataset of a part; of the training images the first of each class by name, as `dataset.per_class`."""
    most = words.per_class if part == "train" else None
    folders = sorted(path for path in (words.folder / part).iterdir() if path.is_dir())
    names = [f"{folder.name}/{file.name}" for folder in folders for file in sorted(folder.iterdir())[:most]]
    return LightlyDataset(str(words.folder / part), transform=transform, filenames=names)


@torch.no_grad()
def accuracy(backbone: nn.Module, bank: DataLoader[Any], test: DataLoader[Any]) -> float:
    """Percent of the test images that lightly's kNN gets right, with its k 200 and t 0.1."""
    backbone.eval()
    known = list(features(backbone, bank))
    vectors, labels = torch.cat([h for h, _ in known]).T.contiguous(), torch.cat([label for _, label in known])
    right = [(knn_predict(h, vectors, labels, CLASSES)[:, 0] == label) for h, label in features(backbone, test)]
    backbone.train()
    return round(100 * torch.cat(right).float().mean().item(), 2)


def features(backbone: nn.Module, loader: DataLoader[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Unit features and labels, batch by batch."""
    for x, label, _ in loader:
        yield F.normalize(backbone(x), dim=1), label


if __name__ == "__main__":
    main()
