"""The example with sentences, as its user runs it."""

import re
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
