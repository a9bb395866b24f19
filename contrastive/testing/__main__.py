"""`python -m contrastive.testing FILE.json`: check golden cases, exit 1 on a failure."""

import json
import sys
from pathlib import Path

from contrastive.testing.golden import check


def main(path: str) -> int:
    """Check every case of the file and print those that do not pass; returns the exit code."""
    count = {"passed": 0, "failed": 0, "not implemented": 0, "out of domain": 0}
    for case in json.loads(Path(path).read_text())["cases"]:
        verdict, details = check(case)
        count[verdict] += 1
        if verdict != "passed":
            print(f"case {case.get('id')} {case['loss']} {case['params']}: {verdict}: {details}")
    if count["out of domain"]:
        print(f"{count['out of domain']} out of domain")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['not implemented']} not implemented")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python -m contrastive.testing FILE.json, such as tests/data/golden.json")
    sys.exit(main(sys.argv[1]))
