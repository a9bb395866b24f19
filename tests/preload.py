"""What the fork server of tests/forked.py imports."""

import hydra  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch._dynamo
import torch.distributed
import torch.utils.tensorboard  # noqa: F401
from hydra.core.plugins import Plugins

import contrastive.cli.verify
import contrastive.config.naming
import contrastive.experiment.evaluate
import contrastive.experiment.run
import contrastive.export
import contrastive.report.__main__  # noqa: F401

Plugins.instance()  # the installed ones, which every start looks for
