"""Keys in URLs, such as that of a tracker, reach no file, no log and no message."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from contrastive.__main__ import main
from contrastive.errors import ConfigError
from contrastive.listing.names import check_no_secrets
from tests.dataset.data import RECIPE
from tests.helpers import ONE_THREAD, compose_settings, program, write_image_folder

KEY = "AKIAEXAMPLE"
SECRET = "Topsecret/with+slash"
URLS = [
    (f"s3://{KEY}:{SECRET}@bucket/train/{{000..099}}.tar", "s3://bucket/train/{000..099}.tar"),
    (f"https://{SECRET.replace('/', '')}@host/train.tar", "https://host/train.tar"),
    (f"https://host/train.tar?X-Amz-Credential={KEY}&X-Amz-Signature={SECRET}", "https://host/train.tar"),
    (f"az://container/train.tar?sv=2024&sig={SECRET}", "az://container/train.tar"),
]


@pytest.mark.parametrize(("url", "bare"), URLS)
def test_a_url_with_a_key_is_refused_without_the_key(url, bare):
    assert bare in refuses(lambda: check_no_secrets(url))


def test_no_setting_may_have_a_key_in_its_url():
    refuses(lambda: compose_settings("tracker=mlflow", f"tracker.mlflow.uri='https://me:{SECRET}@host'"))


def refuses(refused) -> str:
    with pytest.raises(ConfigError, match=r"has a key in its URL.*an environment variable") as error:
        refused()
    assert KEY not in str(error.value) and "opsecret" not in str(error.value)
    return str(error.value)


def test_other_places_are_left_alone():
    for place in ("s3://bucket/user@host.tar", "https://host:8080/a.tar", "a:b@c/train", "/data/who?/x=1", "s3://b"):
        check_no_secrets(place)


@pytest.mark.parametrize("words", [["train", "-m", "seed=0,1"], ["train"], ["compare", "loss=nt_xent,supcon"]])
def test_no_command_prints_or_writes_the_key(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        assert main([*words, "dataset=shards", f'dataset.root="{URLS[0][0]}"', "dataset.size=16"]) == 2
    assert "s3://bucket/train" in said.getvalue() and KEY not in said.getvalue() and "opsecret" not in said.getvalue()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_run_keeps_nothing_of_the_environment(tmp_path):
    folder = write_image_folder(tmp_path / "insects")
    words = [*RECIPE, "dataset=image_folder", f"dataset.root={folder}", "dataset.size=12", "batch_size=8", "epochs=1"]
    secret = {**ONE_THREAD, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "WANDB_API_KEY": SECRET}
    done = program(*words, "hydra.run.dir=run", cwd=tmp_path, env=secret)
    assert done.returncode == 0, done.stderr
    files = [path for path in Path(tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 4
    for content in (done.stdout.encode(), done.stderr.encode(), *(path.read_bytes() for path in files)):
        assert KEY.encode() not in content and SECRET.encode() not in content
