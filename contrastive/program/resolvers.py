"""`${oc.env:NAME}` reads no other variable than those that configs/train.yaml reads, while our configurations resolve.

A configuration is written into the run's directory, and would take a password along.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer

from contrastive.errors import ConfigError

READABLE = ("DATA_ROOT",)


@contextmanager
def limited_environment() -> Iterator[None]:
    """Within the body `oc.env` is `read_variable`; afterwards it is what the rest of the program made it."""
    before = BaseContainer._resolvers["oc.env"]
    OmegaConf.register_new_resolver("oc.env", read_variable, replace=True)
    try:
        yield
    finally:
        BaseContainer._resolvers["oc.env"] = before


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
