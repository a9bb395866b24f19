"""t-SNE maps of the test images of finished runs."""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.run.files import ENCODER, encoder_node, read_config, resolve_builtin
from contrastive.run.weights import read_weights

MAX_IMAGES = 1000


def tsne_map(run: Path) -> dict[str, list[Any]]:
    """{x, y, class, and on biased data bias} of at most 1,000 test images, embedded by the run's saved encoder.

    t-SNE (van der Maaten & Hinton 2008) of scikit-learn, perplexity 30, on normalized features; same map in every call.
    """
    import torch  # late: pages without maps need neither
    from sklearn.manifold import TSNE
    from torch.nn.functional import normalize as unit_length

    from contrastive.training.features import extract
    from contrastive.training.precision import Normalize

    config = read_config(run)
    data = build(config["dataset"])
    node = encoder_node(config["encoder"], data.test.image.shape[-1])
    encoder = build({**node, "pretrained": False} if "pretrained" in node else node)
    encoder.load_state_dict(read_weights(run / ENCODER).tensors)
    index = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))[:MAX_IMAGES]
    features = extract(encoder, data.test, Normalize(data.mean, data.std), index)
    map_ = TSNE(random_state=0, init="pca").fit_transform(unit_length(features.h, dim=1).numpy())
    points = {"x": map_[:, 0].round(1).tolist(), "y": map_[:, 1].round(1).tolist()}
    points["class"] = [data.classes[label] for label in features.label.tolist()]
    return points if features.bias is None else {**points, "bias": features.bias.tolist()}


def build(node: dict[str, Any]) -> Any:
    """Call the `_target_` of a node of config.yaml, a dataset or an encoder of this package, with its other values.

    Raises:
        ConfigError: the target is anything else: nothing that a file names is imported for it.
    """
    if (target := resolve_builtin(node["_target_"], ["dataset", "encoder"])) is None:
        raise ConfigError(f"{node['_target_']} is no dataset or encoder of contrastive: try without its map (--tsne)")
    return target(**{key: value for key, value in node.items() if not key.startswith("_")})
