"""The example with sentences as its user runs it; docs/loops.md prints what it says, its imports and extras exist."""

import doctest
import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.test_package import run_python
from tests.helpers import ROOT, write_files

SCRIPT = ROOT / "examples/sentences/sentences.py"


@pytest.mark.slow
def test_it_trains_on_sentences_and_reads_senteval(tmp_path: Path) -> None:
    pairs = [
        "MR/rt-polarity.neg", "MR/rt-polarity.pos", "CR/custrev.neg", "CR/custrev.pos", "SUBJ/subj.subjective",
        "SUBJ/subj.objective", "MPQA/mpqa.neg", "MPQA/mpqa.pos",
    ]  # fmt: skip
    for i, name in enumerate(pairs):
        said = f"the {'import' if i % 2 else 'return'} statement number"
        write_files(tmp_path, {name: "".join(f"{said} {n}\n" for n in range(60))})
    for name, n in (("train_5500.label", 60), ("TREC_10.label", 20)):
        lines = [f"{'NUM:x return the value' if i % 2 else 'LOC:y import a module'} {i}\n" for i in range(n)]
        write_files(tmp_path, {f"TREC/{name}": "".join(lines)})
    code = "import sys, runpy; sys.argv = ['s', 'loss=debiased_neg', 'tau_plus=0.01', 'epochs=1', 'dim=16', "
    code += f"'senteval={tmp_path}']; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    printed = run_python(code, path=ROOT, cwd=tmp_path)
    topics = [float(x) for x in re.findall(r"topic of a held-out sentence ([0-9.]+) %", printed)]
    assert len(topics) == 2
    assert min(topics) > 5  # of 44 topics
    tasks = dict(re.findall(r"(MR|CR|SUBJ|MPQA|TREC): ([0-9.]+) %", printed))
    assert len(tasks) == 5
    assert min(map(float, tasks.values())) > 75  # a single word tells the classes apart


@pytest.mark.slow
def test_pairs_of_sentences_are_learned_in_their_own_trainer(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("datasets")
    script = ROOT / "examples/sentences/pairs.py"
    printed = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", path=ROOT, cwd=tmp_path)
    before, after = map(int, re.findall(r"([0-9]+) %", printed))
    assert before < 80 < after


PAGE = (ROOT / "docs/loops.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_prints_what_it_says() -> None:
    examples = "\n".join(block for block in BLOCKS if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(examples, {}, "docs/loops.md", None, 0)
    assert len(test.examples) > 20
    report: list[str] = []
    failed, _ = doctest.DocTestRunner().run(test, out=report.append)
    assert not failed, "".join(report)


def test_every_adapter_is_on_the_page_and_an_extra() -> None:
    files = {path.stem for path in (ROOT / "contrastive/integrations").glob("[a-z]*.py")}
    assert set(re.findall(r"^\| `(\w+)` \| `[A-Z]\w+` \|", PAGE, re.MULTILINE)) == files
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name.replace("_", "-") for name in files} <= extras.keys()
