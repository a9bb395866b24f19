"""t-SNE maps of the test images of finished runs."""

import importlib
from pathlib import Path
from typing import Any

import yaml

MAX_IMAGES = 1000


def tsne_map(run: Path) -> dict[str, list[Any]]:
    """{x, y, class, and on biased data bias} of at most 1,000 test images, embedded by the run's saved encoder.

    t-SNE (van der Maaten & Hinton 2008) of scikit-learn, perplexity 30, on normalized features; same map in every call.
    """
    import torch  # late: pages without maps need neither
    from safetensors.torch import load_file
    from sklearn.manifold import TSNE
    from torch.nn.functional import normalize as unit_length

    from contrastive.training.features import extract
    from contrastive.training.normalize import Normalize

    config = yaml.safe_load((run / "config.yaml").read_text())
    data, encoder = build(config["dataset"]), build(config["encoder"])
    encoder.load_state_dict(load_file(run / "encoder.safetensors"))
    index = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))[:MAX_IMAGES]
    features = extract(encoder, data.test, Normalize(data.mean, data.std), index)
    map_ = TSNE(random_state=0, init="pca").fit_transform(unit_length(features.h, dim=1).numpy())
    points = {"x": map_[:, 0].round(1).tolist(), "y": map_[:, 1].round(1).tolist()}
    points["class"] = [data.classes[label] for label in features.label.tolist()]
    return points if features.bias is None else {**points, "bias": features.bias.tolist()}


def build(node: dict[str, Any]) -> Any:
    """Call the `_target_` of a node of config.yaml with the node's other values."""
    module, _, name = node["_target_"].rpartition(".")
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    return getattr(importlib.import_module(module), name)(**options)
