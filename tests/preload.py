"""What the fork server of tests/forked.py imports."""

import hydra  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch.distributed
import torch.utils.tensorboard  # noqa: F401

import contrastive.program.experiment
import contrastive.program.naming  # noqa: F401
