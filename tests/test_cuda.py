"""What only a GPU can show."""

import pytest
import torch

from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from tests.helpers import TINY

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
ON_GPU = [*TINY[:-1], "device=cuda", "epochs=2", "batch_size=128", "noise_frac=0.3"]


@pytest.mark.parametrize(
    "words",
    [
        ["resident=true"],
        ["resident=false"],
        ["compile=true"],
        ["precision=fp16"],
        ["grad_cache_chunk=50"],
        ["dataset=biased_digits", "regularizer=fairkl"],
    ],
)
def test_a_whole_run(composed, tmp_path, words):
    result = run_experiment(composed(*ON_GPU, *words), tmp_path)
    assert result["test"]["knn_top1"] > 20


@pytest.mark.parametrize("loss", ["nt_xent", "debiased_pos", "hard_negative"])
def test_a_step_never_waits_for_the_device(composed, loss):
    built = build(composed(*ON_GPU, "noise_frac=0", f"loss={loss}"))
    rng = generator(built.device, 0)
    batches = built.loader.epoch(0)
    for _ in range(2):
        built.step.step(next(batches), rng)
    batch = next(batches)
    torch.cuda.set_sync_debug_mode("error")
    try:
        built.step.step(batch, rng)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_tiles_on_the_gpu_equal_the_matrix_on_the_cpu():
    from contrastive import make

    z = torch.randn(3000, 2, 16, generator=torch.Generator().manual_seed(0))
    values = []
    for device in ("cpu", "cuda"):
        free = z.to(device).requires_grad_()
        value = make("loss/nt_xent")(free)
        values.append((value.detach().cpu(), torch.autograd.grad(value, free)[0].cpu()))
    torch.testing.assert_close(values[1], values[0], rtol=1e-5, atol=1e-6)
