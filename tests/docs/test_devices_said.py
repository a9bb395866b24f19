"""Sentences about what ran on which device, against the devices in the committed records."""

import json
import re
from functools import cache

import pytest

from tests.helpers import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "studies").rglob("*.md"))]
GPU = r"\b(GPU|GPUs|CUDA|cards?|H100)\b"
NOTHING = r"\b(no (figure|run|result|number|table|card|GPU)|nothing|none of)\b"
NOTHING_RAN = rf"{NOTHING}.*\b(ran|run|made|measured|computed|trained|used)\b"
ALL_ON_CPUS = r"\b(all|every) (runs?|figures?|answers?|tables?|results?)\b[^.]*\bCPU"
EXCEPT = r"\b(several|two GPUs|but|except|H100)\b"


@cache
def devices() -> dict[str, set[str]]:
    """{record: the devices of its runs}"""
    contents = {path.parent.name: json.loads(path.read_text()) for path in (ROOT / "studies").glob("*/record.json")}
    return {
        name: {environment["device"] for environment in content["environments"]}
        for name, content in contents.items()
        if isinstance(content, dict) and "environments" in content
    }


def denials(text: str) -> list[str]:
    """Sentences that say that nothing ran on a GPU, or all on CPUs, without an exception."""
    sentences = re.split(r"(?<=[.?!|])\s+", " ".join(text.split()))
    return [
        sentence
        for sentence in sentences
        if not re.search(EXCEPT, sentence)
        and (
            (re.search(NOTHING_RAN, sentence, re.IGNORECASE) and re.search(GPU, sentence, re.IGNORECASE))
            or re.search(ALL_ON_CPUS, sentence, re.IGNORECASE)
        )
    ]


def test_no_page_denies_the_devices_of_the_records():
    on_gpu = [name for name, own in devices().items() if any("NVIDIA" in device for device in own)]
    assert on_gpu, "no record is of a GPU any more: this test has nothing to compare"
    assert {path: found for path in PAGES if (found := denials(path.read_text()))} == {}


def test_the_page_of_every_record_names_its_devices():
    for name, own in devices().items():
        text = (ROOT / f"studies/{name}/README.md").read_text()
        assert all(device in text for device in own), name


@pytest.mark.parametrize(
    ("sentence", "is_denial"),
    [
        ("Not known: longer training. No figure here was made on a GPU.", True),
        ("All runs are small: two CPU cores, or one to three\nepochs at the published size.", True),
        ("Nothing has run on a GPU or on several machines yet.", False),  # of several machines it is true
        ("Nothing has run on a GPU yet.", True),
        ("Batches are copied on a stream. No card has run this yet.", True),
        ("The 20 epochs ran on one H100, all else on CPUs.", False),
        ("`why_sigmoid`, which needs no GPU: the sigmoid loss", False),
        ("Half a minute without GPU, data or account", False),
        ("one run on each GPU, or one on each core where there is no GPU.", False),
    ],
)
def test_a_denial_is_found(sentence, is_denial):
    assert bool(denials(sentence)) == is_denial
