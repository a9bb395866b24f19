"""Shared by every test: one thread (the suite's tensors are small), and a way to compose settings."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
import yaml

from contrastive.config.settings import Settings
from tests.helpers import ROOT, compose_settings

torch.set_num_threads(1)
yaml.SafeLoader = yaml.CSafeLoader  # which Hydra reads YAMLs with: most of the time of composing settings


@pytest.fixture
def composed() -> Callable[..., Settings]:
    """composed(*overrides): the settings those overrides on the command line give."""
    return compose_settings


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """The reference values of losses, kNN and LARS."""
    cases: dict[str, Any] = json.loads((ROOT / "tests/data/golden.json").read_text())
    return cases


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without the charting library, which takes seconds to bundle."""
    monkeypatch.setattr(pytest.importorskip("contrastive.report.charts"), "javascript", lambda: "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that fork first: autograd refuses to run in a fork once it has started threads of its own."""
    items.sort(key=lambda item: item.path.stem not in ("test_process", "test_gather"))
