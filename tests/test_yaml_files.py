"""A user's YAML file is looked at before OmegaConf builds anything of it."""

import pytest

from contrastive.errors import ConfigError
from contrastive.run.files import check_yaml
from tests.helpers import ROOT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line 1 is not YAML"),
        ("a: b\n\tc: d", "line 2 is not YAML"),
        ("- 1\n- 2", "KEY: VALUE"),
        ("NTXent", "KEY: VALUE"),
        ("a: &x [1, *x]", "line 1 has an alias that contains itself"),
        ("a: 1\nb: &x {c: {d: *x}}", "line 2 has an alias that contains itself"),
        ("a: *nothing", "undefined alias"),
        ("x" * 5 + ": " + "[" * 3000 + "]" * 3000, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path, text, said):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        check_yaml(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "odd.yaml"
    path.write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        check_yaml(path)


def test_aliases_of_aliases_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.yaml"
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="more than 100000 values"):
        check_yaml(path)
    path.write_text("\n".join(lines[:3]))  # 1,110 values
    check_yaml(path)


def test_every_yaml_of_the_repository_passes(tmp_path):
    paths = sorted((ROOT / "configs").rglob("*.yaml"))
    assert len(paths) > 50
    for path in paths:
        check_yaml(path)
    (tmp_path / "empty.yaml").write_text("")
    check_yaml(tmp_path / "empty.yaml")
