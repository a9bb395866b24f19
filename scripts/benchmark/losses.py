"""Time and memory of losses, forward and backward, on one thread: losses.py ["loss=NAME SETTING=VALUE ..." ...]

Without arguments of all rows of the table objectives_search. Columns are batches of 256 and of 2,048 images, with two
views and projections of 128 dimensions.
"""

import resource
import subprocess
import sys
from json import loads

import torch
import yaml
from hydra import compose, initialize_config_dir
from measure import Clock, peak_mib, report

from contrastive.config import CONFIGS
from contrastive.config.settings import Settings
from contrastive.experiment.components import build_loss
from contrastive.text import format_grid
from contrastive.training.objective import Embedded, Objective
from contrastive.types import Split

SIZES, DIM, N_IMAGES, LIMIT = (256, 2048), 128, 50_000, 8 * 2**30


def measure(overrides: list[str], n: int) -> dict[str, float]:
    """Milliseconds and MiB of one call of the loss on n images with its backward pass, after a first one."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        loss = build_loss(Settings.from_config(compose("train", overrides)).loss)
    label = torch.arange(N_IMAGES) % 10
    train = Split(torch.zeros(1, dtype=torch.uint8).expand(N_IMAGES, 3, 32, 32), label)
    objective = Objective(loss, train=train, n_classes=10, feature_dim=512, projection_dim=DIM)
    z = torch.randn(n, 2, DIM, generator=torch.Generator().manual_seed(0), requires_grad=True)
    batch = Embedded({"projections": z}, label[:n], None, torch.arange(n))

    def once() -> None:
        objective(batch).backward()
        objective.after_step()

    once()
    peak, clock, repeats = peak_mib(once), Clock(), 20 if n == SIZES[0] else 3
    clock.start()
    for _ in range(repeats):
        once()
    return {"ms": 1000 * clock.stop()["seconds"] / repeats, "mib": peak}


def cells(overrides: list[str], n: int) -> list[str]:
    """The same as text, from a process of its own that may take so much memory and no more."""
    process = subprocess.run([sys.executable, __file__, "--one", str(n), *overrides], capture_output=True, text=True)
    if "can't allocate memory" in process.stderr:
        return ["", f"over {LIMIT // 2**30} GiB"]
    if process.returncode:
        sys.exit(process.stderr)
    found = loads(process.stdout)
    return [f"{found['ms']:.3g}", f"{found['mib']:.0f}"]


def main(words: list[str]) -> None:
    if words[:1] == ["--one"]:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        torch.set_num_threads(1)
        report(**measure(words[2:], int(words[1])))
        return
    heads = [head for n in SIZES for head in (f"ms, {n:,} images", "MiB")]
    losses = [word.split() for word in words] or objectives()
    rows = [[" ".join(loss), *(cell for n in SIZES for cell in cells(loss, n))] for loss in losses]
    print(format_grid([["loss", *heads], *rows]))


def objectives() -> list[list[str]]:
    """What each row of the table sets of its loss."""
    table = yaml.safe_load((CONFIGS / "table/objectives_search.yaml").read_text())
    return [[word for word in row["overrides"] if word.startswith("loss")] for row in table["rows"]]


if __name__ == "__main__":
    main(sys.argv[1:])
