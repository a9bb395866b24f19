"""A table of any finished runs: python -m contrastive.report outputs/digits [FOLDER ...]"""

import json
import sys
from pathlib import Path

import yaml

from contrastive.program.settings import FREE, flatten
from contrastive.report.sweep import Job, table


def jobs(folders: list[Path]) -> list[Job]:
    """Every finished run under the folders, each with the settings in which the runs differ.

    A setting that only some runs have, such as another loss's, is left out where all that have it agree.
    """
    paths = sorted({path.parent for folder in folders for path in folder.rglob("result.json")})
    configs = [flatten(yaml.safe_load((path / "config.yaml").read_text())) for path in paths]
    keys = sorted({key for config in configs for key in config if key not in FREE})
    told = [key for key in keys if len({str(config[key]) for config in configs if key in config}) > 1]
    return [
        Job(
            [word(key, config[key]) for key in told if key in config],
            path,
            json.loads((path / "result.json").read_text()),
        )
        for path, config in zip(paths, configs, strict=True)
    ]


def word(key: str, value: object) -> str:
    """A setting as it would be typed: `loss._target_` and its class become loss=Class."""
    if key.endswith("._target_"):
        return f"{key.removesuffix('._target_')}={str(value).rpartition('.')[2]}"
    return f"{key}={value}"


def main(words: list[str]) -> int:
    found = jobs([Path(word) for word in words])
    if not found:
        print(
            f"no finished run under {', '.join(words) or 'no folder'}: try python -m contrastive.report outputs",
            file=sys.stderr,
        )
        return 2
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
