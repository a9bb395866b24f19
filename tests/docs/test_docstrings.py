"""Docstrings say of each argument what it is, one argument a line, so that the API pages list all of them."""

import ast
import doctest
import importlib
import re
from collections.abc import Iterator

import pytest

from tests.docs.test_architecture import FILES, tree
from tests.helpers import ROOT

NAME = r"\*{0,2}\w+(?: \([^)]*\))?"


def parameters(node: ast.ClassDef | ast.FunctionDef) -> set[str]:
    """The arguments of a function, or what a class is built from."""
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        return {argument.arg for argument in own if argument is not None}
    fields = {i.target.id for i in node.body if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name)}
    made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    return fields.union(*(parameters(item) for item in made))


def documented(doc: str) -> Iterator[str]:
    """The entries of a docstring's Args, each in one line."""
    block = re.search(r"^Args:\n((?:    .*\n?)+)", doc, re.MULTILINE)
    for entry in re.split(r"\n(?=    \S)", block[1].rstrip()) if block else ():
        yield " ".join(entry.split())


def packed(entry: str, known: set[str]) -> bool:
    """Whether an entry is about several arguments, or about none."""
    if not re.match(rf"{NAME}: ", entry):
        return True
    return any(name in known for name in re.findall(r"[.;] (\w+)(?:, \w+)*: ", entry))


def test_each_argument_has_a_line_of_its_own():
    wrong = []
    for path in FILES:
        for node in tree(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                own = parameters(node)
                wrong += [f"{path}: {e}" for e in documented(ast.get_docstring(node) or "") if packed(e, own)]
    assert not wrong, "\n".join(wrong)


LOSSES = sorted((ROOT / "contrastive/loss").glob("[a-z]*.py"))


@pytest.mark.parametrize("path", [path for path in LOSSES if path.stem != "base"], ids=lambda path: path.stem)
def test_the_example_of_a_loss_prints_what_it_says(path):
    failed, tried = doctest.testmod(importlib.import_module(f"contrastive.loss.{path.stem}"))
    assert failed == 0
    assert tried >= 3
