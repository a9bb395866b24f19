"""Arguments of components are checked against the types that their constructors declare."""

import pytest

from contrastive.errors import ConfigError
from contrastive.program.arguments import check_arguments


class Component:
    def __init__(
        self,
        *,
        n: int = 3,
        x: float = 0.5,
        flag: bool = False,
        side: int | None = None,
        steps: tuple[int, ...] = (1, 2),
    ) -> None:
        raise AssertionError("checking arguments builds nothing")


TARGET = f"{__name__}.Component"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("n", "many", "head.n must be a whole number, got many: try head.n=3"),
        ("n", 2.5, "head.n must be a whole number, got 2.5: try head.n=3"),
        ("n", True, "head.n must be a whole number, got true: try head.n=3"),
        ("n", None, "head.n must be a whole number, got null: try head.n=3"),
        ("x", "hot", "head.x must be a number, got hot: try head.x=0.5"),
        ("flag", 1, "head.flag must be true or false, got 1: try head.flag=false"),
        ("side", "wide", "head.side must be a whole number or null, got wide: try head.side=null"),
        ("steps", 3, "head.steps must be a list, each entry a whole number, got 3: try head.steps=[1,2]"),
        ("steps", [1, "b"], "head.steps must be a list, each entry a whole number, got [1,b]: try head.steps=[1,2]"),
    ],
)
def test_a_wrong_type_is_refused_with_the_default_as_example(key, value, message):
    with pytest.raises(ConfigError) as caught:
        check_arguments("head", {"_target_": TARGET, key: value})
    assert str(caught.value) == message


def test_right_types_are_accepted():
    check_arguments("head", {"_target_": TARGET, "n": 4, "x": 1, "flag": True, "side": None, "steps": [3, 4]})
    check_arguments("head", {"_target_": TARGET, "side": 4, "steps": []})


def test_nested_components_are_checked_under_their_full_key():
    with pytest.raises(ConfigError, match=r"augmentation\.ops\.crop\.n must be"):
        check_arguments("augmentation", {"ops": {"crop": {"_target_": TARGET, "n": "many"}, "blur": None}})


@pytest.mark.parametrize("target", ["no.such.module", "contrastive.nothing", "builtins.dict"])
def test_a_target_without_a_signature_is_left_to_its_construction(target):
    check_arguments("head", {"_target_": target, "n": "many"})
