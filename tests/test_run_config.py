"""config.yaml of a run directory is read as data, whoever wrote it."""

import pytest
import yaml

from contrastive.errors import ConfigError
from contrastive.run.files import read_config
from tests.helpers import SOUND_CONFIG


def written(run, content):
    run.mkdir(exist_ok=True)
    text = content if isinstance(content, bytes) else yaml.safe_dump(content).encode()
    (run / "config.yaml").write_bytes(text)
    return run


def test_a_sound_configuration_is_returned(tmp_path):
    assert read_config(written(tmp_path / "run", SOUND_CONFIG)) == SOUND_CONFIG


BOMB = b"a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 9)
)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"a: [", b"[1, 2]", BOMB, {**SOUND_CONFIG, "loss": None},
        {**SOUND_CONFIG, "encoder": {"width": 2}}, {**SOUND_CONFIG, "seed": "x"},
        b"a: &x 1\nb: *x", yaml.safe_dump(SOUND_CONFIG).encode() + BOMB,
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_one_sentence(tmp_path, content):
    run = written(tmp_path / "run", content)
    with pytest.raises(ConfigError, match=r"config.yaml is missing or damaged: try rerun=true"):
        read_config(run)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="is missing or damaged"):
        read_config(tmp_path)


def test_an_interpolation_is_never_resolved(tmp_path):
    run = written(tmp_path / "run", {**SOUND_CONFIG, "dataset": {"_target_": "x.Y", "name": ["${oc.env:SECRET}"]}})
    with pytest.raises(ConfigError, match="holds an interpolation, which no run writes"):
        read_config(run)
