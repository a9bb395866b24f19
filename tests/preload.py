"""What the fork server of tests/forked.py imports."""

import hydra  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch._dynamo
import torch.distributed
import torch.utils.tensorboard  # noqa: F401
from hydra.core.plugins import Plugins

Plugins.instance()  # the installed ones, which every start looks for
