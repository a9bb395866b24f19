"""Docstrings and pages of losses, and the leaderboard: complete, and made of the committed records' numbers."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from contrastive.config.reference import option_files
from docs.make import loss_pages as losses
from scripts.generate import generated
from tests.helpers import ROOT

LOSSES = sorted((ROOT / "contrastive/loss").glob("[a-z]*.py"))


def test_every_loss_says_what_its_page_needs() -> None:
    assert set(losses.facts()) == set(option_files("loss"))
    for name, own in losses.facts().items():
        assert set(own) >= {"title", "data", "does", "when", "memory", "checked"}, name
        assert own["data"] and set(own["data"]) <= set(losses.DATA), name
        assert set(own["related"]) <= set(losses.facts()) - {name}, name
        assert own["checked"] in losses.CHECKED, name
        assert own["does"].endswith("."), name
        assert all(key in losses.references() or key.startswith("https://") for key in own["cite"]), name


def test_every_reference_is_cited() -> None:
    assert set(losses.references()) <= {key for own in losses.facts().values() for key in own["cite"]}
    for key, entry in losses.references().items():
        assert entry.startswith("@") and entry.count("{") == entry.count("}"), key


def test_what_is_made_of_the_losses_is_up_to_date() -> None:
    for path, text in generated().items():
        assert path.read_text() == text, f"{path.name} is not what its sources say: try make generate"


@pytest.mark.parametrize("path", [path for path in LOSSES if path.stem != "base"], ids=lambda path: path.stem)
def test_the_example_of_a_loss_prints_what_it_says(path: Path) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"contrastive.loss.{path.stem}"))
    assert failed == 0 and tried >= 3


@pytest.mark.parametrize("name", sorted(option_files("loss")))
def test_a_page_has_every_setting_formula_and_citation(name: str) -> None:
    page = losses.loss_page(name)
    for item in losses.settings_of("loss", name):
        assert f"`{item.key}`" in page
    assert " ".join(losses.docstring_of(losses.target_of("loss", name)).split()) in " ".join(page.split())
    for key in losses.facts()[name]["cite"]:
        assert losses.references().get(key, key) in page


def test_the_leaderboard_has_each_row_that_ran_once_and_its_command() -> None:
    board, commands = losses.leaderboard(), losses.commands()
    sections = re.split(r"^## ", board, flags=re.MULTILINE)
    for record in losses.records():
        (section,) = (part for part in sections if part.startswith(f"{record['title']}\n"))
        for row in record["rows"]:
            assert section.count(f"| {row['name']} |") == bool(row["runs"]), row["name"]
            if row["runs"]:
                assert commands.count(f"{{ #{losses.anchor(record, row)} }}") == 1


def test_a_row_at_the_papers_temperature_was_not_searched() -> None:
    record = {"table": "debiased_tuned"}
    assert losses.searched(record, {"name": "NT-Xent, t 0.5"}, "") == "no"
    assert "debiased_search" in losses.searched(record, {"name": "NT-Xent, tuned"}, "")
    assert losses.searched({"table": "biased_mnist"}, {"name": "CE"}, "") == "no"
