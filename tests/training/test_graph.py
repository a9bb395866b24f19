"""Which steps become a CUDA graph, and what cannot says so; tests/gpu/test_cuda_graphs.py has the steps."""

import pytest
import torch
from torch import nn

from contrastive.augmentation.callable import PerImage
from contrastive.errors import ConfigError
from contrastive.experiment import build as building
from contrastive.experiment.build import build
from contrastive.loss.nt_xent import NTXent
from contrastive.training import graph
from contrastive.training.graph import choose_graphs
from tests.helpers import TINY

SOUND = {
    "device": torch.device("cuda:0"), "precision": "bf16", "grad_cache_chunk": 0,
    "made_of": [nn.Linear(1, 1), NTXent()],
    "optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, fused=True),
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"device": torch.device("cpu")}, {"precision": "fp16"}, {"grad_cache_chunk": 64},
        {"made_of": [PerImage(transform="x.y", function=str)]},
        {"optimizer": torch.optim.Adam([nn.Parameter(torch.zeros(1))])}, {"processes": 2},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_cannot_be_captured_is_refused_and_auto_leaves_it(change, monkeypatch, capsys):
    assert choose_graphs("auto", **SOUND)
    monkeypatch.setattr(graph, "world_size", lambda: change.get("processes", 1))
    options = SOUND | {key: value for key, value in change.items() if key != "processes"}
    with pytest.raises(ConfigError, match=r"^graphs=true needs .*: try graphs=auto$"):
        choose_graphs(True, **options)
    for setting in ("auto", False):
        assert not choose_graphs(setting, **options)
    assert capsys.readouterr().out == ""


class OwnLoss(NTXent):
    """Might decide something in Python from one step to the next."""


def test_auto_captures_no_code_of_the_user_and_says_what_to_type(capsys):
    own = SOUND | {"made_of": [*SOUND["made_of"], OwnLoss()]}
    assert not choose_graphs("auto", **own)
    assert capsys.readouterr().out == "steps could be faster: try graphs=true if OwnLoss does the same in every step\n"
    assert choose_graphs(True, **own)


@pytest.mark.parametrize("changes", [False, True])
def test_auto_captures_no_step_that_a_hook_changes(composed, monkeypatch, changes):
    seen: list[object] = []
    monkeypatch.setattr(building, "choose_graphs", lambda *_, made_of, **__: seen.extend(made_of))
    build(composed(*TINY, f"+hook.mine={{_target_:tests.training.test_hooks.Diary,changes_training:{changes}}}"))
    assert ("Diary" in [type(part).__name__ for part in seen]) == changes
