"""What the fork server of tests/forked.py imports."""

import gc

import hydra  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch._dynamo
import torch.distributed
import torch.utils.tensorboard  # noqa: F401
from hydra.core.plugins import Plugins

import contrastive.experiment.run  # noqa: F401

Plugins.instance()  # the installed ones, which every start looks for
gc.freeze()  # a collection in a fork would copy every page that it looks at
