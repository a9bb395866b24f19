"""A shard is what tarfile says that it is, or it is refused by name."""

import io
import itertools
import random
import tarfile
from pathlib import Path

import pytest

from contrastive.dataset.shard.tar import key_and_suffix, samples
from contrastive.errors import ConfigError
from tests.dataset.data import write_tar


def read(path: Path) -> dict[tuple[str, str], bytes]:
    """What `samples` says of a shard: {(key, suffix): bytes}."""
    raw = path.read_bytes()
    return {
        (key, suffix): raw[offset : offset + length]
        for key, members in samples(path)
        for suffix, (offset, length) in members.items()
    }


def by_tarfile(path: Path) -> dict[tuple[str, str], bytes]:
    with tarfile.open(path) as tar:
        members = [member for member in tar if member.isreg() or member.islnk()]
        return {key_and_suffix(member.name): tar.extractfile(member).read() for member in members}


def generated(path: Path, *, format: int, seed: int) -> Path:
    """Files in any order, some of them hard links, with names short and long, content of any length."""
    rng = random.Random(seed)
    folders = ("", "a/", f"{'x' * 120}/{'y' * 130}/" if format != tarfile.USTAR_FORMAT else "b/")
    names = [f"{folder}{i:03}.{suffix}" for folder in folders for i in range(6) for suffix in ("jpg", "cls", "seg.png")]
    if format == tarfile.PAX_FORMAT:
        names += ["ü/😀.jpg", "ü/😀.cls"]
    rng.shuffle(names)
    with tarfile.open(path, "w", format=format) as tar:
        written = []
        for name in names:
            info = tarfile.TarInfo(name)
            if written and rng.random() < 0.3:
                info.type, info.linkname = tarfile.LNKTYPE, rng.choice(("", "./")) + rng.choice(written)
                tar.addfile(info)
            else:
                content = rng.randbytes(rng.choice((0, 1, 511, 512, 513, 3000)))
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            written.append(name)
            if rng.random() < 0.2:
                folder = tarfile.TarInfo(f"folder{len(written)}.d")
                folder.type = tarfile.DIRTYPE
                tar.addfile(folder)
    return path


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_file_has_the_bytes_that_tarfile_extracts(tmp_path, format):
    for seed in range(8):
        path = generated(tmp_path / f"{seed}.tar", format=format, seed=seed)
        theirs = by_tarfile(path)
        assert read(path) == theirs and len(theirs) > 50


def test_files_of_a_key_need_not_be_neighbors(tmp_path):
    assert read(write_tar(tmp_path / "none.tar", {})) == {}
    files = {f"./{i}.{suffix}": suffix.encode() * i for suffix in ("jpg", "cls") for i in range(1, 4)}
    found = dict(samples(write_tar(tmp_path / "a.tar", files)))
    assert list(found) == ["1", "2", "3"] and all(list(members) == ["jpg", "cls"] for members in found.values())


def special(kind: bytes, linkname: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo("b.jpg")
    info.type, info.linkname = kind, linkname
    return info


@pytest.mark.parametrize(
    "member",
    [
        special(tarfile.SYMTYPE, "a.jpg"), special(tarfile.LNKTYPE, "z.jpg"), special(tarfile.LNKTYPE, "b.jpg"),
        special(tarfile.FIFOTYPE), special(tarfile.GNUTYPE_SPARSE),
    ],
    ids=["symbolic", "to nothing", "to itself", "pipe", "sparse"],
)  # fmt: skip
def test_what_is_no_plain_file_is_refused_by_name(tmp_path, member):
    path = write_tar(tmp_path / "a.tar", {"a.jpg": b"x"})
    with tarfile.open(path, "a") as tar:
        tar.addfile(member)
    with pytest.raises(ConfigError, match=r"a\.tar has a link or a sparse file in place of .* b\.jpg: try tar"):
        read(path)


def test_a_sparse_file_of_pax_is_refused(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        info, content = tarfile.TarInfo("GNUSparseFile.0/b.jpg"), b"1\n0\n3\n".ljust(512, b"\0") + b"abc"
        info.size = len(content)
        info.pax_headers = {
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "b.jpg", "GNU.sparse.realsize": "9000"
        }  # fmt: skip
        tar.addfile(info, io.BytesIO(content))
    with pytest.raises(ConfigError, match=r"a\.tar has a link or a sparse file in place of the bytes of b\.jpg"):
        read(path)


@pytest.mark.parametrize(("one", "other"), itertools.permutations(["a.jpg", "./a.jpg", "a.JPG"], 2))
def test_two_files_of_one_name_are_refused(tmp_path, one, other):
    path = write_tar(tmp_path / "a.tar", {one: b"1", "b.jpg": b"2", other: b"3"})
    with pytest.raises(ConfigError, match=r"a\.tar has two files with the key a and the suffix jpg: try another key"):
        read(path)


def test_what_follows_the_end_is_refused_and_padding_is_not(tmp_path):
    path, other = (write_tar(tmp_path / f"{i}.tar", {f"{i}.jpg": b"x"}) for i in range(2))
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(100_000))
    assert list(dict(samples(path))) == ["0"]
    for behind in (other.read_bytes(), bytes(3_000_000) + b"x"):
        path.write_bytes(whole + behind)
        with pytest.raises(ConfigError, match=r"0\.tar goes on behind its end at byte 1024, as tars joined by cat do"):
            read(path)


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Of a file whose size is written in base 256."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = (b"\xff" if size < 0 else b"\x80") + size.to_bytes(11, "big", signed=True)
    total = sum(block) - sum(block[148:156]) + 8 * 32
    block[148:156] = f"{total:06o}\0 ".encode()
    return bytes(block)


@pytest.mark.parametrize("size", [-512, -(2**40), 4096, 2**62, 2**80])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_size_that_cannot_be_is_damage(tmp_path, size, kind, is_first):
    path = write_tar(tmp_path / "a.tar", {"a.jpg": b"x"})
    whole, wild = path.read_bytes()[:2048], header("README", size, kind)
    path.write_bytes(wild + whole if is_first else whole[:1024] + wild + whole[1024:])
    said = r"a\.tar (is compressed, cut or damaged in|is cut, or has a damaged header,)"
    with pytest.raises(ConfigError, match=said):
        read(path)
