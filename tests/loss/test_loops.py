"""docs/loops.md: its values are those that are printed, its imports and extras exist."""

import doctest
import re
import tomllib

from tests.helpers import ROOT

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
