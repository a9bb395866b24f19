"""Transfer: the frozen encoder on other datasets."""

from dataclasses import dataclass

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, evaluate
from contrastive.evaluator.knn import KNN
from contrastive.evaluator.linear import Linear


@dataclass(kw_only=True)
class Transfer(Evaluator):
    """kNN and linear accuracy of the frozen encoder on each of a list of datasets (Chen et al. 2020, §B.8.1).

    Images of the side that the encoder was trained on, standardized with the statistics it was trained with. Both
    probes fit, choose and test on the splits of that dataset, as `knn` and `linear` do on the encoder's own.

    Args:
        datasets: names of datasets, such as cifar10, or paths of image folders.

    Raises:
        ConfigError: a dataset that is named twice, or cannot be loaded.
    """

    needs_labels = False  # of the data of the run
    reads_training = False
    reads_images = True

    datasets: tuple[str, ...] = ("digits",)

    def __post_init__(self) -> None:
        if len({data_key(name) for name in self.datasets}) < len(self.datasets):
            raise ConfigError(
                f"evaluator.transfer.datasets={list(self.datasets)} names one twice: "
                "try each once, and folders whose last names differ"
            )
        self.probes: dict[str, Evaluator] = {"knn": KNN(k=20), "linear": Linear()}
        protocols = "; ".join(f"{name}: {item.protocol}" for name, item in self.probes.items())
        self.protocol = (
            f"on the splits of {', '.join(self.datasets)}, images of the side and with the mean and std that the "
            f"encoder was trained with; {protocols}"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        images = features.images_for("transfer")
        scores = Scores()
        for name in self.datasets:
            answer, key = evaluate(self.probes, images.transfer(name)), data_key(name)
            scores.test.update({f"{key}_{metric}": value for metric, value in answer.test.items()})
            scores.val.update({f"{key}_{metric}": value for metric, value in answer.val.items()})
        return scores


def data_key(name: str) -> str:
    """The name of a dataset's metrics: its own, or the last of a folder's path."""
    return name.strip("/").rpartition("/")[2]
