"""Shards in an object store: an HTTP server of this test, and obstore's store of files, give what the disk gives."""

import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from contrastive.__main__ import main
from contrastive.dataset.shard import index, store
from contrastive.dataset.shard.pack import pack_folder
from contrastive.dataset.shards import shards
from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError
from contrastive.training.loader import Loader
from tests.dataset.data import RECIPE, assert_same_run, continued, damage, killed, load_shards, ran, write_shards
from tests.helpers import ROOT, write_image_folder

pytest.importorskip("obstore", reason="the extra `remote` is not installed")
PATTERN = "{000..002}.tar"
STORE = store._store


class Files(BaseHTTPRequestHandler):
    """Ranges of the files of a folder."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append((self.command, self.path, wanted))
        path = server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.answer(404, b"")
            return
        content, extra = path.read_bytes(), {"ETag": f'"{path.stat().st_mtime_ns}"'}
        if wanted is None:
            self.answer(200, content, **extra)
            return
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        extra["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self.answer(206, content[first : last + 1], **extra)

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            if self.server.cuts:
                content, self.close_connection = content[: len(content) // 2], True
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """Serves a folder, and keeps what it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Files)
        self.folder, self.cuts, self.asked = folder, False, list[tuple[str, str, str | None]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def n_reads(self) -> int:
        return sum(command == "GET" for command, _, _ in self.asked)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """It serves what lies in tmp_path; obstore gives up at once."""
    from obstore.store import HTTPStore

    options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    monkeypatch.setattr(store, "_store", store.cache(lambda root: HTTPStore.from_url(root, **options)))
    made = Server(tmp_path)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_shards(tmp_path / "tars")


def remote(server: Server, **options):
    place = {"root": f"{server.url}/tars/{PATTERN}", "cache": str(server.folder / "cache")}
    return shards(**{**place, "size": 8, **options})


@pytest.mark.parametrize("kind", ["http", "file", "s3"])
def test_images_labels_and_order_are_those_of_the_disk(server, folder, kind, monkeypatch):
    place = {"http": f"{server.url}/tars", "file": f"file://{folder}", "s3": "s3://tars"}[kind]
    if kind != "http":  # the store that is made from the URL and the environment
        monkeypatch.setattr(store, "_store", STORE)
        for name, value in {"ENDPOINT_URL": server.url, "ALLOW_HTTP": "true", "SKIP_SIGNATURE": "true"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
    whole, divided = {"root": PATTERN}, {"root": "{000..001}.tar", "test": "002.tar"}
    for names, options in ((whole, {}), (whole, {"chunk": 4, "window": 8}), (divided, {})):
        mine = remote(server, **{key: f"{place}/{name}" for key, name in names.items()}, **options)
        theirs = load_shards(folder, **{key: f"{folder}/{name}" for key, name in names.items()}, **options)
        assert fingerprint(mine) == fingerprint(theirs)
        assert (mine.mean, mine.std, mine.facts["dataset_name"]) == (theirs.mean, theirs.std, "tars")
        for one, other in zip(
            *(Loader(d.pretrain, batch_size=9, seed=0).epoch(0) for d in (mine, theirs)), strict=True
        ):
            assert torch.equal(one.image, other.image) and torch.equal(one.label, other.label)


def test_a_shard_is_streamed_once_while_its_tag_stays(server, folder, monkeypatch):
    monkeypatch.setattr(store, "PART", 5000)  # several parts
    first = remote(server)
    monkeypatch.setattr(index, "samples", None)  # a call would fail
    assert fingerprint(remote(server)) == fingerprint(first)
    assert not [path for path in (server.folder / "cache").iterdir() if path.suffix == ".part"]
    (folder / "001.tar").touch()
    with pytest.raises(TypeError):
        remote(server)


def test_the_index_that_pack_wrote_is_copied(server, tmp_path, monkeypatch):
    pack_folder(write_image_folder(tmp_path / "insects"), tmp_path / "packed", per_shard=16)
    place = {"root": f"{server.url}/packed/train/{{00000..00002}}.tar", "test": f"{server.url}/packed/test/00000.tar"}
    monkeypatch.setattr(index, "samples", None)  # a call would fail
    mine = remote(server, **place)
    theirs = shards(root=str(tmp_path / "packed/train"), test=str(tmp_path / "packed/test"), size=8)
    assert fingerprint(mine) == fingerprint(theirs)


def test_a_damaged_image_is_named_by_url_and_key(server, folder):
    remote(server)
    load_shards(folder)
    damage(folder, 33)
    with pytest.raises(ConfigError, match=rf"{server.url}/tars/001\.tar is damaged at 00033\.png, byte \d+: its bytes"):
        remote(server)


def test_a_store_that_fails_is_named(server, folder):
    image = remote(server).pretrain.image
    server.cuts = True
    with pytest.raises(ConfigError, match=rf"{server.url}/tars/000\.tar at byte \d+ cannot be read \(.*: try the same"):
        image[torch.arange(20)]
    with pytest.raises(ConfigError, match=rf"{server.url}/tars/00\d\.tar at byte 0 cannot be read"):
        remote(server, cache=str(server.folder / "other"))
    server.cuts = False
    (folder / "002.tar").write_bytes((folder / "002.tar").read_bytes()[:30_000])  # cut in the store itself
    with pytest.raises(ConfigError, match=rf"^{server.url}/tars/002\.tar is cut"):
        remote(server)
    assert not [path for path in (server.folder / "cache").iterdir() if path.suffix == ".part"]
    (folder / "002.tar").unlink()
    with pytest.raises(ConfigError, match=rf"{server.url}/tars/002\.tar cannot be read \(.*404 Not Found"):
        remote(server)
    with pytest.raises(ConfigError, match=r"002\.tar at byte \d+ cannot be read \(.*404 Not Found.*dataset\.root=URL$"):
        image[torch.arange(54)]


def test_neighbors_are_read_in_one_request(server, tmp_path, monkeypatch):
    write_shards(tmp_path / "tars", each=40)
    monkeypatch.setattr(store, "GAP", 9 * 2048)  # nine rows
    n = {}
    for chunk, window in ((1, 1), (9, 9)):
        data = remote(server, chunk=chunk, window=window)
        before = server.n_reads()
        list(Loader(data.pretrain, batch_size=9, seed=0).epoch(0))
        n[chunk] = server.n_reads() - before
    assert n[9] < n[1] / 2


def test_folders_and_stars_are_listed_where_a_store_can(server, folder, monkeypatch):
    (folder / "deeper").mkdir()
    (folder / "deeper/003.tar").write_bytes(b"")
    monkeypatch.setattr(store, "_store", STORE)
    for pattern in (f"file://{folder}", f"file://{folder}/", f"file://{folder}/*.tar", f"file://{folder}/00*.tar"):
        assert [url.rpartition("/")[2] for url in store.matching(pattern)] == ["000.tar", "001.tar", "002.tar"]
        assert store.matching(pattern)[0] == f"file://{folder}/000.tar"
    for pattern in (f"{server.url}/tars", f"{server.url}/tars/*.tar"):
        with pytest.raises(ConfigError, match=r"server lists no files: try 'dataset\.root=URL/\{000\.\.099\}\.tar'"):
            store.matching(pattern)
    with pytest.raises(ConfigError, match=r"there is no shard file:.*/x\*\.tar"):
        remote(server, root=f"file://{folder}/x*.tar")


def test_without_the_extra_the_sentence_says_how_to_install_it(folder, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigError, match=r"try pip install 'debiased-contrastive\[remote\]'$"):
        shards(root="s3://bucket/train/{000..099}.tar", size=8, cache=str(tmp_path))
    lines = [line for path in (ROOT / "contrastive").rglob("*.py") for line in path.read_text().splitlines()]
    assert all(line.startswith("    ") for line in lines if "import obstore" in line or "from obstore" in line)


def test_pack_to_a_url_is_refused(tmp_path, capsys):
    assert main(["pack", str(write_image_folder(tmp_path / "insects")), "s3://bucket/insects"]) == 2
    assert re.search(r"got s3://bucket/insects: try a folder, and upload that", capsys.readouterr().err)


def words(root: str, cache: Path) -> list[str]:
    place = [f"dataset.root={root}", f"dataset.cache={cache}"]
    return [*RECIPE, "dataset=shards", *place, "dataset.size=8", "batch_size=6"]


@pytest.mark.slow
def test_a_run_on_a_store_killed_and_continued_is_the_undisturbed_one(server, tmp_path):
    write_shards(tmp_path / "tars", each=60)
    often = "checkpoint_every_minutes=0.0001"
    ran(*words(f"{tmp_path}/tars/{PATTERN}", tmp_path / "a"), "hydra.run.dir=near", cwd=tmp_path)
    far = [*words(f"{server.url}/tars/{PATTERN}", tmp_path / "b"), often, f"hydra.run.dir={tmp_path}/far"]
    killed(1, far, tmp_path / "far", after=10)
    continued(1, far, tmp_path)
    assert_same_run(tmp_path / "far", tmp_path / "near")
