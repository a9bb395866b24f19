"""The public names, for Python (see __init__.py), mypy and editors: each stands here and nowhere else."""

from .augmentation.base import Operation as Operation
from .augmentation.compose import Compose as Compose
from .augmentation.simclr import SimCLR as SimCLR
from .dataset.splits import channel_stats as channel_stats
from .dataset.splits import name_splits as name_splits
from .encoder.resnet import ResNet as ResNet
from .encoder.simple_convnet import SimpleConvNet as SimpleConvNet
from .errors import ConfigError as ConfigError
from .evaluator.base import Evaluator as Evaluator
from .evaluator.base import FeatureSets as FeatureSets
from .evaluator.base import Scores as Scores
from .experiment.api import Result as Result
from .experiment.api import pretrain as pretrain
from .experiment.encoder import load_encoder as load_encoder
from .experiment.encoder import load_head as load_head
from .experiment.make import make as make
from .gathering import gather as gather
from .loss.barlow import BarlowTwins as BarlowTwins
from .loss.base import (
    Loss as Loss,
)
from .loss.base import (
    SampleLoss as SampleLoss,
)
from .loss.base import (
    SelfSupervisedLoss as SelfSupervisedLoss,
)
from .loss.base import (
    SupervisedContrastiveLoss as SupervisedContrastiveLoss,
)
from .loss.bcl import BCL as BCL
from .loss.bias_balanced import BiasBalanced as BiasBalanced
from .loss.bias_contrastive import BiasContrastive as BiasContrastive
from .loss.byol import BYOL as BYOL
from .loss.combination import Combination as Combination
from .loss.contrastive_margin import ContrastiveMargin as ContrastiveMargin
from .loss.cross_entropy import CrossEntropy as CrossEntropy
from .loss.debiased_neg import DebiasedNeg as DebiasedNeg
from .loss.debiased_pos import DebiasedPos as DebiasedPos
from .loss.decoupled import Decoupled as Decoupled
from .loss.dhel import DHEL as DHEL
from .loss.eps_supcon import EpsSupCon as EpsSupCon
from .loss.eps_supinfonce import EpsSupInfoNCE as EpsSupInfoNCE
from .loss.fnc import FNC as FNC
from .loss.gce import GCE as GCE
from .loss.glofnd import GloFND as GloFND
from .loss.group_dro import GroupDRO as GroupDRO
from .loss.hard_negative import HardNegative as HardNegative
from .loss.infonce_anchor import InfoNCEAnchor as InfoNCEAnchor
from .loss.jtt import JTT as JTT
from .loss.kcl import KCL as KCL
from .loss.large_margin_softmax import LargeMarginSoftmax as LargeMarginSoftmax
from .loss.mmcl import MMCL as MMCL
from .loss.npair import NPair as NPair
from .loss.nt_xent import NTXent as NTXent
from .loss.rince import RINCE as RINCE
from .loss.sigmoid import Sigmoid as Sigmoid
from .loss.simsiam import SimSiam as SimSiam
from .loss.sincere import SINCERE as SINCERE
from .loss.soft_supcon import SoftSupCon as SoftSupCon
from .loss.softcon import SoftCon as SoftCon
from .loss.sogclr import SogCLR as SogCLR
from .loss.spectral import Spectral as Spectral
from .loss.supcon import SupCon as SupCon
from .loss.triplet import Triplet as Triplet
from .loss.vicreg import VICReg as VICReg
from .optimizer.lars import LARS as LARS
from .pairs.pairs import Pairs as Pairs
from .pairs.relations import (
    any_other as any_other,
)
from .pairs.relations import (
    conflicting_positive as conflicting_positive,
)
from .pairs.relations import (
    different_class as different_class,
)
from .pairs.relations import (
    other_class as other_class,
)
from .pairs.relations import (
    other_image as other_image,
)
from .pairs.relations import (
    positive as positive,
)
from .pairs.relations import (
    same_class as same_class,
)
from .regularizer.end import EnD as EnD
from .regularizer.fairkl import FairKL as FairKL
from .regularizer.lnl import LNL as LNL
from .study.compare.api import Comparison as Comparison
from .study.compare.api import compare as compare
from .study.frame import runs as runs
from .testing.dataset import check_dataset as check_dataset
from .testing.encoder import check_encoder as check_encoder
from .testing.loss import check_loss as check_loss
from .training.hook import Hook as Hook
from .training.hook import Training as Training
from .types import Data as Data
from .types import Split as Split

__version__: str
