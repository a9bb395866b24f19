"""Losses of the first 20 steps of the main recipes: python -m tests.training.golden_curves writes them anew.

Only a change that is meant to move numbers is a reason to do so.
"""

import json

import torch

from contrastive.config.settings import Settings
from contrastive.experiment.build import build
from contrastive.seeding import derive, generator
from tests.helpers import ROOT, compose_settings

FILE = ROOT / "tests/data/golden_curves.json"
STEPS = 20
# SGD, because Adam's first steps are signs of gradients, which rounding turns over: equal code would differ by 1e-2.
SGD = ["optimizer=sgd", "optimizer.lr=0.001"]
COMMON = ["encoder.width=4", "precision=fp32", "device=cpu", "batch_size=64", "evaluator=[]", *SGD]
DIGITS, BIASED = [*COMMON, "dataset.size=8"], [*COMMON, "dataset=biased_digits", "dataset.size=8"]
RECIPES = {
    "nt_xent": ["loss=nt_xent", *DIGITS],
    "debiased_neg": ["loss=debiased_neg", *DIGITS],
    "debiased_pos": ["loss=debiased_pos", *DIGITS],
    "supcon": ["loss=supcon", *DIGITS],
    "eps_supinfonce_fairkl": ["experiment=eps_supinfonce_fairkl", *BIASED],
    "bc_bb": ["experiment=bc_bb", "sampler=bias_balanced", *BIASED],
    "lnl": ["experiment=hong_yang_lnl", *BIASED],
}


def curve(settings: Settings) -> list[float]:
    """The loss of each step, as the program takes it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        experiment = build(settings)
        step, loader, losses = experiment.step, experiment.loader, []
        epoch = 0
        while len(losses) < STEPS:
            torch.manual_seed(derive(settings.seed, "layers", epoch))
            rng = generator("cpu", settings.seed, "augmentation", epoch)
            losses += [step(batch, rng).loss.item() for batch in loader.epoch(epoch)]
            epoch += 1
        return losses[:STEPS]
    finally:
        torch.set_num_threads(threads)


def write() -> None:
    """Compute every curve and replace the file."""
    curves = {name: curve(compose_settings(*words)) for name, words in RECIPES.items()}
    FILE.write_text(json.dumps({"torch": torch.__version__, "curves": curves}, indent=1) + "\n")


if __name__ == "__main__":
    write()
