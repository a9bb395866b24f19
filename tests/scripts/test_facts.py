"""The rows of published tables against what the papers and their code say, and what every table must have."""

import re
from pathlib import Path

import pytest
import yaml
from tables.spec import config_dirs, folder_name, read_table, table_paths

from contrastive.config.compose import search_path
from contrastive.config.identity import flatten
from tests.helpers import ROOT

PATHS = table_paths()
FACTS = yaml.safe_load((ROOT / "tests/data/facts.yaml").read_text())
TABLES = [pytest.param(t, marks=pytest.mark.smoke if t == "supervised" else ()) for t in FACTS if t != "shared"]


def presets(path: Path) -> list[str]:
    """Those that a table has; the plan of a study may lack the small one."""
    return ["paper", *yaml.safe_load(path.read_text()).get("presets", {})]


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_rows_have_the_settings_of_the_papers(composed, table):
    rows = read_table(PATHS[table]).rows
    settings = {row.name: flatten(composed(*row.overrides).to_dict()) for row in rows if row.overrides}
    checked = set()
    for pattern, expected in FACTS[table]:
        matching = [name for name in settings if re.search(pattern, name)]
        assert matching, f"no row of {table} matches {pattern}"
        checked.update(matching)
        for name in matching:
            for key, value in expected.items():
                value = pytest.approx(value) if isinstance(value, float) else value
                assert settings[name][key] == value, f"{table}: {name}: {key}"
    assert checked == settings.keys()


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_rows_have_folders_of_their_own_and_sources(path):
    for preset in presets(path):
        table = read_table(path, preset=preset)
        folders = [ROOT / folder_name(row.name) for row in table.rows]
        assert len(set(folders)) == len(folders)
        for row in table.rows:
            assert row.overrides or row.published, "a row is neither run nor quoted"
            assert bool(row.source) == bool(row.published), row.name
            assert row.published.keys() <= table.metrics.keys(), row.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in PATHS.values() if "small" in presets(path)], ids=lambda path: path.parent.name + path.stem
)
def test_rows_of_the_small_preset_compose(composed, path):
    """Of rows that differ in numbers alone the first. Those of the paper are composed above, those of smoke built."""
    table = read_table(path, preset="small")
    rows, own = [row.overrides for row in table.rows if row.overrides], search_path(config_dirs(table))
    for words in {tuple(re.sub(r"=[\d.e-]+$", "=", word) for word in row): row for row in rows}.values():
        composed(*words, *own)
