"""Recompute kept comparisons from their records: whether each is whole, its verdicts, and the page beside it.

    python -m contrastive verify outputs/compare
    python -m contrastive verify studies --unsealed      some are older than the hashes of code and settings

The exit code is 1 if one differs. Tables of papers: python scripts/reproduce_table.py --verify FOLDER. The figures of a
run: contrastive evaluate RUN, which says whether they are recorded.
"""

import sys
from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError
from contrastive.study.render.files import check_folder
from contrastive.text import counted, show


@answering
def main(words: list[str]) -> int:
    """Print what differs; returns 0 if nothing does, else 1 (2 for a folder without a comparison)."""
    parser = Parser("verify", __doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a folder of comparisons or studies, or one JSON")
    parser.add_argument("--unsealed", action="store_true", help="also take comparisons without hashes of their code")
    options = parser.parse_args(words)
    checked, wrong = check_folder(options.folder, unsealed=options.unsealed)
    if not checked:
        raise ConfigError(f"{options.folder} contains no JSON of a comparison: try verify outputs/compare")
    for message in wrong:
        show(message, file=sys.stderr)
    print(f"{counted(checked, 'comparison')} of {options.folder} recomputed, {len(wrong)} differ")
    return 1 if wrong else 0
