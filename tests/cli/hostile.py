"""Hostile input for the whole program: Hypothesis strategies, and the program called in this process."""

import contextlib
import io
import os
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

import train
from contrastive.config import compose
from contrastive.config.settings import Settings
from contrastive.experiment import components
from tests.helpers import CONTIGUOUS, ROOT

SMALL = ["encoder=resnet18_narrow", "encoder.width=2", "dataset.size=8", "epochs=1", "batch_size=64", "device=cpu"]
SMALL.append(CONTIGUOUS)
DRY = [*SMALL, "evaluator=[knn]", "dry_run=true", "hydra.run.dir=run"]  # naming a run composes once more


def call(words: list[str], folder: Path, out: io.StringIO | None = None) -> tuple[int, str]:
    """Run the program on these words in `folder`: (exit code, its stderr); what it prints goes to `out`."""
    compose._defaults.cache_clear()
    components._load_data.cache_clear()
    out, err, before = out or io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = train.main(words)
    finally:
        os.chdir(before)
    return code, err.getvalue()


def check(words: list[str], folder: Path) -> int:
    """Fail unless the words end in a result or in one sentence with exit code 2; returns the code."""
    code, said = call(words, folder)
    lines = [line for line in said.splitlines() if re.match(r"(\S+: )?error: ", line)]  # argparse says who it is
    assert "Traceback" not in said, (words, said[-2000:])
    assert code in (0, 2), (words, code, said)
    assert code == 0 or len(lines) == 1, (words, said)
    assert code == 0 or (":" in lines[0][7:] and len(lines[0]) < 2000), (words, said)
    results = list(folder.rglob("result.json"))
    assert code == 0 or not results, (words, "a result of a run that was refused")
    return code


# ---- overrides

ODD_VALUES = [
    "", "null", "true", "no", "-1", "0", "1", "2", "3", "1e9", "1e-9", "nan", "inf", "-inf", "2.5", "abc", "[]", "[1]",
    "[a,b]", "[0.5,2.0]", "{}", "{a:1}", "1e400", "0x10", "1_000", "${seed}", "${nothing}", "${oc.env:HOME}", ".5",
    "\\${seed}", "'a b'", '"ü"', "a,b", "range(3)", "glob(*)", "???", "[[1,2],[3]]", "{_target_:os.getcwd}", "-0", "()",
    "{_target_:contrastive.head.mlp.MLP}", "torch.optim.SGD", "99999999999999999999999",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(ODD_VALUES),
    st.integers(-5, 300).map(str),
    st.floats(allow_nan=True, width=16).map(str),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6),
)


def leaves(node: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of a configuration, those of containers included."""
    if prefix:
        yield prefix
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{prefix}.{key}" if prefix else key)


GROUPS = {
    path.name: [file.stem for file in path.glob("*.yaml")]
    for path in (ROOT / "configs").iterdir()
    if path.is_dir() and path.name not in ("hydra", "table", "experiment")
}
OFFLINE = ("cifar10", "cifar100", "mnist", "biased_mnist", "stl10", "image_folder")


@st.composite
def choices(draw: st.DrawFn) -> list[str]:
    """Options of groups, among them some that do not exist; nothing that downloads."""
    names = draw(st.lists(st.sampled_from(sorted(set(GROUPS) - {"evaluator"})), max_size=3, unique=True))
    return [
        f"{name}={draw(st.sampled_from([option for option in GROUPS[name] if option not in OFFLINE] + ['nothing']))}"
        for name in names
    ]


@st.composite
def overrides(draw: st.DrawFn, keys: list[str]) -> list[str]:
    """A few settings of the defaults with odd values, and words that are no settings."""
    words = draw(choices()) if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 2))):
        prefix = draw(st.sampled_from(["", "", "", "", "", "", "+", "++", "~"]))
        key = draw(st.sampled_from(keys))
        values = st.sampled_from(ODD_VALUES) if key == "threads" else VALUES  # 171 threads wait for one another
        words.append(f"{prefix}{key}={draw(values)}")
    if draw(st.integers(0, 9)) == 0:  # as the last word
        words.append(draw(st.sampled_from(["-x", "--cfg", "--info", "-c=job", "--config-dir", "--", "=", "a", "-"])))
    return words


def keys_of(settings: Settings) -> list[str]:
    """Every key a user could type, containers and unknown ones among them."""
    safe = [key for key in leaves(settings.to_dict()) if key not in ("device", "dry_run")]
    return [*safe, "nothing", "loss.nothing", "hydra.run.dir", "hydra.verbose", "hydra.job.chdir", "evaluator.nothing"]


# ---- YAML files

TARGETS = ["os.system", "builtins.eval", "contrastive.head.mlp.MLP", "torch.nn.ReLU", "contrastive.loss.nt_xent.NTXent"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 100), st.floats(width=16), st.text(max_size=5), st.sampled_from(TARGETS),
    st.sampled_from(["${temperature}", "${x}", "???"]),
)  # fmt: skip
NAMES = ["_target_", "_args_", "temperature", "defaults", "hydra", "a", "loss", "width", "size"]
NODES = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(
        SCALARS,
        lambda child: st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(NAMES), child, max_size=3),
        max_leaves=6,
    ),
    max_size=5,
)
SOUND_NODES = st.builds(lambda target, node: {**node, "_target_": target}, st.sampled_from(TARGETS[2:]), NODES)
RAW_YAML = st.sampled_from(
    [
        "", "\t", "a: [", "a: &x [*x]", "a: &x {b: *x}", "- 1", "5", "null", "a: b: c", "%", "\x00", "_target_: 5",
        "!!python/object:os.x {}", "!!python/object/apply:os.system [touch EVIL]", "a: 1\na: 2", "_target_: ",
        "? [a]\n: 1", "---\n---\n", "# @package hydra.callbacks.x\n_target_: os.getcwd", "defaults: [nothing]",
        "# @package _global_\nhydra: {callbacks: {x: {_target_: os.x}}}", "defaults: 5", "defaults: [my_loss]",
        "1: 2", "a: !!binary x", "a: 2001-01-01", "{" * 2000, "defaults: [odd]", "# @package a.b\nc: 1",
    ]
)  # fmt: skip


def choose(group: str) -> list[str]:
    """The small configuration with the user's option of a group; other settings of that group left out."""
    small = [word for word in DRY if not word.startswith((f"{group}=", f"{group}."))]
    return [*small, "--config-dir", "mine", f"{group}=[odd]" if group == "evaluator" else f"{group}=odd"]


# ---- images and folders

MODES = {"RGB": 3, "RGBA": 4, "L": 0, "CMYK": 4}


@st.composite
def image_bytes(draw: st.DrawFn) -> bytes:
    """An encoded image: sound, truncated, flipped, empty, animated, of another mode, or no image."""
    kind = draw(st.sampled_from(["sound", "sound", "sound", "cut", "flip", "empty", "noise", "moving", "bomb"]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    size, stream = tuple(draw(st.lists(st.integers(1, 12), min_size=2, max_size=2))), io.BytesIO()
    if kind in ("empty", "noise"):
        return b"" if kind == "empty" else rng.bytes(50)
    if kind == "bomb":
        return png_header(*draw(st.sampled_from([(60_000_000, 1), (50_000, 50_000), (2**31 - 1, 2**31 - 1), (0, 5)])))
    if kind == "moving":
        frames = [Image.fromarray(rng.integers(0, 255, size, dtype=np.uint8)) for _ in range(3)]
        frames[0].save(stream, "gif", save_all=True, append_images=frames[1:])
    else:
        mode = draw(st.sampled_from(sorted(MODES)))
        shape = (*size, MODES[mode]) if MODES[mode] else size
        picture = Image.fromarray(rng.integers(0, 255, shape, dtype=np.uint8), mode)
        picture.save(stream, "tiff" if mode == "CMYK" else draw(st.sampled_from(["png", "tiff"])))
    content = bytearray(stream.getvalue())
    if kind == "cut":
        return bytes(content[: draw(st.integers(0, len(content)))])
    if kind == "flip":
        for _ in range(draw(st.integers(1, 8))):
            content[draw(st.integers(0, len(content) - 1))] ^= draw(st.integers(1, 255))
    return bytes(content)


def png(seed: int) -> bytes:
    """A sound image."""
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(stream, "png")
    return stream.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims to be large and holds no pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (head, data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


CLASS_NAMES = st.sampled_from([b"ant", b"bee", b"a b", b"a,b", "ü".encode(), b"\xff", b"=", b"'", b"-", b".x", b"${x}"])
SPECIAL = ("fifo", "dangling", "loop", "folder", "link")


@st.composite
def folders(draw: st.DrawFn) -> dict[str, Any]:
    """What `write_folder` writes: per split the files of every class."""
    few = draw(st.integers(0, 9)) == 0  # too few classes or images for a run
    classes = draw(st.lists(CLASS_NAMES, min_size=0 if few else 2, max_size=3, unique=True))
    others = draw(st.lists(CLASS_NAMES, max_size=3, unique=True)) if draw(st.integers(0, 4)) == 0 else classes
    sound = [] if few else [png(i) for i in range(3)]
    files = st.lists(image_bytes() | st.sampled_from(SPECIAL), max_size=3).map(lambda odd: [*sound, *odd])
    return {"train": {name: draw(files) for name in classes}, "test": {name: draw(files) for name in others}}


def write_folder(root: Path, content: dict[str, Any]) -> None:
    for part, classes in content.items():
        (root / part).mkdir(parents=True)
        for name, files in classes.items():
            folder = os.fsencode(root / part) + b"/" + name
            os.mkdir(folder)
            for i, file in enumerate(files):
                path = folder + (b"/%d.png" % i if i % 3 else b"/%d\xfe.png" % i)
                if isinstance(file, bytes):
                    Path(os.fsdecode(path)).write_bytes(file)
                else:
                    {"fifo": os.mkfifo, "folder": os.mkdir}.get(file, lambda p: link(p, file))(path)  # noqa: B023


def link(path: bytes, kind: str) -> None:
    os.symlink({"dangling": b"/no/such/file", "loop": os.path.basename(path), "link": b".."}[kind], path)
