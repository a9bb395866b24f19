"""Run a table of configs/table and print it: python scripts/reproduce_table.py TABLE [key=value ...]

Every row is a sweep over the table's seeds, exactly as a user would type it; extra words go to every row. Runs that
are done are kept and interrupted ones go on, so the same command may be given again.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import yaml

from contrastive.report.table import paper_table, row_folder
from contrastive.run.identity import is_identity

ROOT = Path(__file__).resolve().parent.parent


def home(name: str, extra: list[str]) -> Path:
    """Where the table's runs lie: settings that change no result have no part in the name."""
    kept = sorted(word for word in extra if is_identity(word.lstrip("+").split("=", 1)[0]))
    digest = hashlib.sha256(repr(kept).encode()).hexdigest()[:8]
    return Path("outputs") / "table" / (f"{name}-{digest}" if kept else name)


def main(name: str, extra: list[str]) -> int:
    path = ROOT / "configs" / "table" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        print(f"there is no table {name}, known are {known}: try make reproduce-table TABLE=digits", file=sys.stderr)
        return 2
    spec = yaml.safe_load(path.read_text())
    base = home(name, extra)
    failed = 0
    for row in spec["rows"]:
        words = [*row["overrides"], *extra, f"seed={','.join(map(str, spec['seeds']))}"]
        print(f"== {row['name']}: python train.py -m {' '.join(words)}", flush=True)
        done = subprocess.run(
            [
                sys.executable,
                str(ROOT / "train.py"),
                "-m",
                *words,
                f"hydra.sweep.dir='{row_folder(row, base)}'",
                "hydra.sweep.subdir='seed=${seed}'",
            ]
        )
        failed += done.returncode != 0
    text = paper_table(spec, base, extra)
    base.parent.mkdir(parents=True, exist_ok=True)
    base.with_name(f"{base.name}.md").write_text(text + "\n")
    print(f"\n{text}\n\nwritten to {base}.md")
    if failed:
        print(f"{failed} rows failed: see above, then give the same command again", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python scripts/reproduce_table.py TABLE [key=value ...]")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
