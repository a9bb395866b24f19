"""The memory of a step is counted before the first one, and one that has no room is refused with what to type."""

import pytest
import torch
from torch import nn

from contrastive.config.messages import user_message
from contrastive.encoder.resnet import ResNet
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.machine import GIB, fitting_batch, kept_by_network, needed_by_step
from contrastive.training.precision import autocast
from tests.helpers import TINY

CPU = torch.device("cpu")


def test_memory_that_the_host_lacks_is_one_sentence_with_the_knobs():
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**60, dtype=torch.uint8)
    said = user_message(error.value)
    assert said.startswith("too little memory (") and "grad_cache_chunk" in said


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_counted_is_what_a_pass_keeps(precision):
    network, context = nn.Sequential(ResNet(width=4), nn.Dropout(), nn.Linear(32, 8)), autocast(precision, CPU)
    before, drawn = {name: x.clone() for name, x in network.state_dict().items()}, torch.get_rng_state()
    counted = kept_by_network(network, (6, 3, 16, 16), device=CPU, context=context)
    assert all(torch.equal(x, before[name]) for name, x in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)
    kept, weights = {}, {x.data_ptr() for x in [*network.parameters(), *network.buffers()]}
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.setdefault(x.data_ptr(), x), lambda x: x), context():
        network(torch.zeros(6, 3, 16, 16))
    held = sum(x.untyped_storage().nbytes() for at, x in kept.items() if at not in weights)
    assert counted == pytest.approx(held, rel=0.02)  # of bf16 some casts of weights lie in one place after the other


def test_views_count_and_chunks_save(composed):
    network = ResNet()

    def step(*words):
        settings = composed("dataset=cifar10", *words)
        return needed_by_step(settings, network, (3, 32, 32), second=0, precision="bf16", device=CPU)

    assert 2 * GIB < step() < 6 * GIB  # of 512 images: a laptop bears it
    assert step("n_views=4") == pytest.approx(2 * step(), rel=0.05)
    assert step("grad_cache_chunk=128") < step() / 3
    assert fitting_batch(512, 16 * GIB, 8 * GIB) == 128
    assert fitting_batch(512, GIB, GIB / 2**10) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["n_views=1000000"], "^a step of 256 images in 1,000,000 views needs 1,.*: try a smaller .*n_views$"),
        (["dataset.size=64", "encoder.stem=small"], "try encoder.stem=large or batch_size=32 or grad_cache_chunk=32$"),
        (["dataset.size=64", "n_views=32"], "try batch_size=8 or grad_cache_chunk=8$"),
    ],
)
def test_a_step_without_room_is_refused_before_it(composed, monkeypatch, words, message):
    monkeypatch.setattr("contrastive.experiment.machine.free_memory", lambda device: 0.1 * GIB)
    with pytest.raises(ConfigError, match=message):
        build(composed(*TINY, *words, "precision=bf16"))
    assert build(composed(*TINY, *words, "precision=bf16", "epochs=0"))  # nothing is trained
