"""`${oc.env:NAME}` reads no other variable than those that configs/train.yaml reads. Importing this file registers it.

A configuration is written into the run's directory, and would take a password along.
"""

import os

from omegaconf import OmegaConf

from contrastive.errors import ConfigError

READABLE = ("DATA_ROOT",)


def read_variable(name: str, default: str | None = None) -> str | None:
    """The environment variable, or the default where it is not set.

    Raises:
        ConfigError: another variable than DATA_ROOT.
    """
    if name not in READABLE:
        raise ConfigError(
            f"${{oc.env:{name}}} is refused, a configuration reads {', '.join(READABLE)} only: try KEY=VALUE"
        )
    return os.environ.get(name, default)


OmegaConf.register_new_resolver("oc.env", read_variable, replace=True)
