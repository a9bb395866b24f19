"""Check the bounds of the debiased papers numerically: python scripts/bounds.py [DIRECTORY [PRESET]]

Writes bounds.md, .json, .csv and .png into the directory (outputs/table/bounds unless given) and prints the table:
seconds on a CPU, no data. PRESET is paper, small or smoke, which draws a tenth of the anchors.
"""

import sys
from pathlib import Path

from contrastive.report.bounds_page import write_page

DRAWS = {"paper": 2000, "small": 2000, "smoke": 200}

if __name__ == "__main__":
    directory, preset = [*sys.argv[1:], *["outputs/table/bounds", "paper"][len(sys.argv) - 1 :]][:2]
    if len(sys.argv) > 3 or preset not in DRAWS or directory.startswith("-"):
        sys.exit(__doc__)
    print(write_page(Path(directory), draws=DRAWS[preset]))
    print(f"\nwritten to {directory}")
