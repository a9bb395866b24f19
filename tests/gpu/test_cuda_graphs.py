"""Steps as a CUDA graph, on a GPU: they are the steps they were, nothing in them waits, and runs go on exactly.

Where bits are compared, learning rates are powers of two: other ones are rounded to float32 in a graph.
"""

import copy
import itertools
from collections.abc import Iterator

import pytest
import torch

from contrastive import NTXent
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.training.graph import WARM_UP
from contrastive.training.loader import Loader
from contrastive.types import Batch
from tests.gpu.test_cuda import BIASED, LNL, NOISE, PER_VIEW, SMALL, UNIFORM, no_waits, told_to_end
from tests.gpu.test_cuda import as_it_was as as_it_was  # runs after every test
from tests.helpers import check_same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

RATES = ["schedule=step", "schedule.milestones=[1]", "schedule.gamma=0.5"]
ADAM, SGD, LARS = (f"optimizer.lr={2.0**k}" for k in (-10, -4, 2))
EXACT = [*SMALL, *RATES, "precision=fp32", "deterministic=true"]
KINDS = [
    [ADAM, "loss=nt_xent"],
    [ADAM, "loss=lejepa"],
    ["optimizer=sgd", SGD, *NOISE, "loss=hard_negative"],
    ["optimizer=lars", LARS, *NOISE, "resident=false"],
    [*PER_VIEW, ADAM],
    [*BIASED, ADAM, "regularizer=fairkl", "sampler=bias_balanced"],
    [*BIASED, *UNIFORM, ADAM],
    [*LNL, "optimizer=sgd", SGD],
]


def endless(loader: Loader) -> Iterator[Batch]:
    """The batches of epoch after epoch."""
    return itertools.chain.from_iterable(map(loader.epoch, itertools.count()))


def curves(settings, n: int = 20) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Loss and gradient norm of the first steps (n, 2), then the state of the generator, and the weights."""
    built = build(settings)
    step, loader, rng, values = built.step, built.loader, generator(built.device, 0), []
    for i, batch in enumerate(itertools.islice(endless(loader), n)):
        for group in step.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * built.schedule(i / len(loader), 2)
        output = step(batch, rng)
        values.append(torch.stack([output.loss, output.grad_norm]))
    return torch.stack(values).cpu(), rng.get_state(), step.encoder.state_dict()


@pytest.mark.parametrize("words", KINDS, ids=" ".join)
def test_twenty_steps_are_the_same_bit_for_bit(composed, words):
    """Random views too: a replay draws what the step would have drawn, and moves the generator on as far."""
    (values, state, weights), expected = (curves(composed(*EXACT, *words, f"graphs={x}")) for x in ("true", "false"))
    assert torch.equal(values, expected[0])
    assert torch.equal(state, expected[1])
    assert all(torch.equal(weights[key], value) for key, value in expected[2].items())


@pytest.mark.parametrize(
    "words", [["precision=bf16"], ["compile=auto"], ["compile=true"], ["optimizer.lr=0.003", "schedule=cosine"]]
)
def test_twenty_steps_are_close(composed, words):
    """Not bit for bit: the fastest algorithm may be another one, and learning rates are rounded."""
    found, expected = (curves(composed(*SMALL, *words, f"graphs={x}")) for x in ("true", "false"))
    torch.testing.assert_close(found[0][:WARM_UP], expected[0][:WARM_UP], rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found[0], expected[0], rtol=0.1, atol=0.1)
    assert torch.equal(found[1], expected[1])
    assert len(set(found[0][:, 0].tolist())) == 20  # no replay is another one's


@pytest.mark.parametrize("words", KINDS, ids=" ".join)
def test_replays_never_wait(composed, words):
    built = build(composed(*SMALL, *words, "graphs=true"))
    rng, batches = generator(built.device, 0), endless(built.loader)
    for _ in range(WARM_UP + 1):
        built.step(next(batches), rng)
    with no_waits():
        for _ in range(3):
            built.step(next(batches), rng)


@pytest.mark.parametrize(("first", "second"), [("true", "true"), ("true", "false"), ("false", "true")])
@pytest.mark.parametrize("words", [[ADAM, *NOISE], ["optimizer=lars", LARS], [*LNL, "optimizer=sgd", SGD]])
def test_resume_is_bit_exact(composed, tmp_path, monkeypatch, first, second, words):
    run_experiment(composed(*EXACT, *words, f"graphs={second}"), tmp_path / "whole")
    settings = composed(*EXACT, *words, f"graphs={first}")
    told_to_end(type(build(settings).step), settings, tmp_path / "cut", monkeypatch)
    run_experiment(composed(*EXACT, *words, f"graphs={second}"), tmp_path / "cut")
    check_same(tmp_path / "cut", tmp_path / "whole")


def test_a_loaded_state_is_captured_anew(composed):
    built = build(composed(*EXACT, ADAM, "graphs=true"))
    step, rng, batch = built.step, generator(built.device, 0), next(built.loader.epoch(0))
    for _ in range(WARM_UP + 2):
        step(batch, rng)
    state, drawn = copy.deepcopy(step.state()), rng.get_state()
    expected = [step(batch, rng).loss.item() for _ in range(WARM_UP + 2)]
    step.load(state)
    rng.set_state(drawn)
    assert [step(batch, rng).loss.item() for _ in range(WARM_UP + 2)] == expected


def test_a_loss_that_waits_is_one_sentence(composed, tmp_path, monkeypatch):
    monkeypatch.setattr(NTXent, "per_anchor", lambda self, pairs: pairs.positive_logits.sum(1) * pairs.z.sum().item())
    with pytest.raises(ConfigError, match=r"^the step cannot be captured as a CUDA graph \(.*\): try graphs=false$"):
        run_experiment(composed(*SMALL, "loss=nt_xent", "batch_size=64", "graphs=true"), tmp_path)
    assert torch.ones(3, device="cuda").sum().item() == 3  # the GPU can be used further
