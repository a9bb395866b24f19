"""(De)biased contrastive representation learning: images → views → encoder → head → pairs → a scalar.

The public names are imported at their first use, so that `import contrastive` does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what __getattr__ returns, for mypy and editors; a test holds both lists equal
    from contrastive.augmentation.base import Operation as Operation
    from contrastive.augmentation.compose import Compose as Compose
    from contrastive.augmentation.simclr import SimCLR as SimCLR
    from contrastive.dataset.splits import channel_stats as channel_stats
    from contrastive.dataset.splits import name_splits as name_splits
    from contrastive.encoder.resnet import ResNet as ResNet
    from contrastive.encoder.simple_convnet import SimpleConvNet as SimpleConvNet
    from contrastive.errors import ConfigError as ConfigError
    from contrastive.evaluator.base import Evaluator as Evaluator
    from contrastive.evaluator.base import FeatureSets as FeatureSets
    from contrastive.evaluator.base import Scores as Scores
    from contrastive.experiment.api import Result as Result
    from contrastive.experiment.api import pretrain as pretrain
    from contrastive.experiment.encoder import load_encoder as load_encoder
    from contrastive.experiment.encoder import load_head as load_head
    from contrastive.experiment.make import make as make
    from contrastive.loss.base import Loss as Loss
    from contrastive.loss.base import SampleLoss as SampleLoss
    from contrastive.loss.base import SelfSupervisedLoss as SelfSupervisedLoss
    from contrastive.loss.base import SupervisedContrastiveLoss as SupervisedContrastiveLoss
    from contrastive.loss.bias_balanced import BiasBalanced as BiasBalanced
    from contrastive.loss.bias_contrastive import BiasContrastive as BiasContrastive
    from contrastive.loss.combination import Combination as Combination
    from contrastive.loss.contrastive_margin import ContrastiveMargin as ContrastiveMargin
    from contrastive.loss.cross_entropy import CrossEntropy as CrossEntropy
    from contrastive.loss.debiased_neg import DebiasedNeg as DebiasedNeg
    from contrastive.loss.debiased_pos import DebiasedPos as DebiasedPos
    from contrastive.loss.eps_supcon import EpsSupCon as EpsSupCon
    from contrastive.loss.eps_supinfonce import EpsSupInfoNCE as EpsSupInfoNCE
    from contrastive.loss.gce import GCE as GCE
    from contrastive.loss.hard_negative import HardNegative as HardNegative
    from contrastive.loss.large_margin_softmax import LargeMarginSoftmax as LargeMarginSoftmax
    from contrastive.loss.mmcl import MMCL as MMCL
    from contrastive.loss.npair import NPair as NPair
    from contrastive.loss.nt_xent import NTXent as NTXent
    from contrastive.loss.supcon import SupCon as SupCon
    from contrastive.loss.triplet import Triplet as Triplet
    from contrastive.optimizer.lars import LARS as LARS
    from contrastive.pairs.pairs import Pairs as Pairs
    from contrastive.pairs.relations import any_other as any_other
    from contrastive.pairs.relations import conflicting_positive as conflicting_positive
    from contrastive.pairs.relations import different_class as different_class
    from contrastive.pairs.relations import other_class as other_class
    from contrastive.pairs.relations import other_image as other_image
    from contrastive.pairs.relations import positive as positive
    from contrastive.pairs.relations import same_class as same_class
    from contrastive.regularizer.end import EnD as EnD
    from contrastive.regularizer.fairkl import FairKL as FairKL
    from contrastive.regularizer.lnl import LNL as LNL
    from contrastive.testing.dataset import check_dataset as check_dataset
    from contrastive.testing.encoder import check_encoder as check_encoder
    from contrastive.testing.loss import check_loss as check_loss
    from contrastive.types import Data as Data
    from contrastive.types import Split as Split

_MODULES = {  # public name → the module that defines it
    "Operation": "augmentation.base",
    "Compose": "augmentation.compose",
    "SimCLR": "augmentation.simclr",
    "channel_stats": "dataset.splits",
    "name_splits": "dataset.splits",
    "ResNet": "encoder.resnet",
    "SimpleConvNet": "encoder.simple_convnet",
    "ConfigError": "errors",
    "Evaluator": "evaluator.base",
    "FeatureSets": "evaluator.base",
    "Scores": "evaluator.base",
    "Loss": "loss.base",
    "SampleLoss": "loss.base",
    "SelfSupervisedLoss": "loss.base",
    "SupervisedContrastiveLoss": "loss.base",
    "BiasBalanced": "loss.bias_balanced",
    "BiasContrastive": "loss.bias_contrastive",
    "Combination": "loss.combination",
    "ContrastiveMargin": "loss.contrastive_margin",
    "CrossEntropy": "loss.cross_entropy",
    "DebiasedNeg": "loss.debiased_neg",
    "DebiasedPos": "loss.debiased_pos",
    "EpsSupCon": "loss.eps_supcon",
    "EpsSupInfoNCE": "loss.eps_supinfonce",
    "GCE": "loss.gce",
    "HardNegative": "loss.hard_negative",
    "LargeMarginSoftmax": "loss.large_margin_softmax",
    "MMCL": "loss.mmcl",
    "NPair": "loss.npair",
    "NTXent": "loss.nt_xent",
    "SupCon": "loss.supcon",
    "Triplet": "loss.triplet",
    "LARS": "optimizer.lars",
    "Pairs": "pairs.pairs",
    "any_other": "pairs.relations",
    "conflicting_positive": "pairs.relations",
    "different_class": "pairs.relations",
    "other_class": "pairs.relations",
    "other_image": "pairs.relations",
    "positive": "pairs.relations",
    "same_class": "pairs.relations",
    "load_encoder": "experiment.encoder",
    "load_head": "experiment.encoder",
    "make": "experiment.make",
    "Result": "experiment.api",
    "pretrain": "experiment.api",
    "EnD": "regularizer.end",
    "FairKL": "regularizer.fairkl",
    "LNL": "regularizer.lnl",
    "check_loss": "testing.loss",
    "check_dataset": "testing.dataset",
    "check_encoder": "testing.encoder",
    "Data": "types",
    "Split": "types",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
