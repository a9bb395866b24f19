"""Two processes against one on the same global batch."""

import os
import signal
import subprocess
import sys

import pytest
import torch
import torch._dynamo  # so that forked processes have it already
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from contrastive import make
from contrastive.distributed.batch_norm import CrossProcessBatchNorm, convert_sync_batchnorm
from contrastive.distributed.process import all_reduce_sum, broadcast_from_main, gather, shard, sum_gradients
from contrastive.errors import ConfigError
from contrastive.program.build import build as build_all
from contrastive.seeding import generator
from contrastive.training.objective import Objective
from contrastive.types import Split
from tests.conftest import ONE_THREAD, ROOT, TINY, program
from tests.test_conformance import TERMS
from tests.test_program import heed_ctrl_c, wait_for
from tests.test_run import lines

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="forked processes inherit no GPU: try again with CUDA_VISIBLE_DEVICES= in front"
)
N, WORLD = 12, 2
QUICK = [*TINY, "epochs=1", "precision=fp32", "log_every=1"]


def _worker(rank, task, rendezvous, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    torch.save(task(), results / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture
def together(tmp_path):
    """together(task): what task() returns in each of two processes."""

    def run(task):
        mp.start_processes(_worker, (task, tmp_path / "rendezvous", tmp_path), nprocs=WORLD, start_method="fork")
        (tmp_path / "rendezvous").unlink(missing_ok=True)
        return [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]

    return run


def batch():
    rng = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (N, 3, 8, 8), generator=rng, dtype=torch.uint8)
    return Split(image, torch.arange(N) % 3, torch.arange(N) // 2 % 4)


class Tiny(nn.Module):
    """An encoder of 3 × 8 × 8 pixels, with or without BatchNorm."""

    dim = 6

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(192, 8), nn.BatchNorm1d(8) if norm else nn.Identity(), nn.Tanh(), nn.Linear(8, 6)
        )

    def forward(self, x):
        return self.layers(x)


def gradients(group, name, norm):
    """Value and every parameter's gradient of one term on the same batch, however many processes share it."""
    torch.manual_seed(0)
    data = batch()
    encoder, head = Tiny(norm).double(), nn.Linear(6, 5).double()
    loss, others = make("loss/nt_xent"), []
    if group == "loss":
        loss = make(f"{group}/{name}")
    else:
        others = [make(f"{group}/{name}")]
    objective = Objective(loss, others, train=data, n_classes=3, feature_dim=6, projection_dim=5).double()
    encoder = convert_sync_batchnorm(encoder, torch.device("cpu"))
    own = shard().of(N)
    views = torch.stack([data.image, data.image.flip(3)]).double() / 255
    x = views[:, own].flatten(0, 1)
    h = encoder(x)
    h, z = (value.unflatten(0, (2, N // shard().world)).transpose(0, 1) for value in (h, head(h)))
    value = objective(h, z, data.label[own], data.bias[own])
    value.backward()
    parameters = [*encoder.parameters(), *head.parameters(), *objective.parameters()]
    sum_gradients(parameters)
    return all_reduce_sum(value.detach()), [p.grad for p in parameters]


def named(key):
    return lambda text: f"{key}: {text}"


def every_term():
    return {(group, name, norm): gradients(group, name, norm) for group, name in TERMS for norm in (False, True)}


def test_every_loss_and_regularizer_has_the_value_and_gradients_of_one_process(together):
    alone, shared = every_term(), together(every_term)
    assert len(alone) == 2 * len(TERMS)
    for key, (value, expected) in alone.items():
        assert any(g is not None and g.abs().max() > 1e-8 for g in expected), key
        for found in shared:
            torch.testing.assert_close(found[key][0], value, rtol=1e-9, atol=1e-12, msg=named(key))
            for mine, theirs in zip(found[key][1], expected, strict=True):
                assert (mine is None) == (theirs is None), key
                if mine is not None:
                    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-9, msg=named(key))


def normalized():
    torch.manual_seed(0)
    x = torch.randn(N, 4, 3, 3, dtype=torch.float64) * 3 + 100
    own = shard().of(N)
    norm = convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(4)), torch.device("cpu")).double()
    free = x[own].clone().requires_grad_()
    out = norm(free)
    (gradient,) = torch.autograd.grad((out * torch.arange(N).double()[own, None, None, None] ** 2).sum(), free)
    return gather(out.detach()), gather(gradient), dict(norm.state_dict()), type(norm[0]).__name__


def test_batch_norm_across_processes(together):
    alone = normalized()
    for shared in together(normalized):
        torch.testing.assert_close(shared[:3], alone[:3], rtol=1e-9, atol=1e-9)
        assert shared[3] == CrossProcessBatchNorm.__name__
    assert alone[3] == "BatchNorm2d"


def refused():
    try:
        broadcast_from_main(lambda: (_ for _ in ()).throw(ConfigError("no: try yes")))
    except ConfigError as refusal:
        return str(refusal)


def test_what_the_first_process_refuses_all_refuse(together):
    assert together(refused) == ["no: try yes"] * 2
    assert together(lambda: broadcast_from_main(lambda: shard().rank)) == [0, 0]


@pytest.mark.parametrize(
    "extra",
    [
        [],
        ["loss=debiased_pos", "n_views=3", "views_forward=per_view", "noise_frac=0.5"],
        [
            "dataset=biased_digits",
            "loss=eps_supinfonce",
            "regularizer=fairkl",
            "sampler=bias_balanced",
            "encoder=simple_convnet",
            "encoder.width=2",
        ],
    ],
)
def test_a_step_moves_the_weights_as_one_process_would(composed, together, extra):
    cfg = composed(*[word for word in QUICK if not (extra and "dataset" in extra[0] and "encoder" in word)], *extra)

    def steps():
        built = build_all(cfg)
        trainer, rng, normalize = built.trainer, generator("cpu", 0), built.trainer.normalize
        for module in (trainer.encoder, trainer.head, trainer.objective):
            module.double()
        trainer.normalize = lambda x: normalize(x).double()
        for _, images in zip(range(3), built.loader.epoch(0), strict=False):
            trainer.step(images, rng)
        return trainer.encoder.state_dict()

    alone = steps()
    for shared in together(steps):
        for key, value in alone.items():
            torch.testing.assert_close(shared[key], value, rtol=1e-5, atol=1e-7, msg=named(key))


def test_devices_2_is_one_run_in_one_directory(tmp_path):
    one = program(*QUICK, "hydra.run.dir=one", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    two = program(*QUICK, "devices=2", "hydra.run.dir=two", cwd=tmp_path)
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("Test accuracy") == 1
    assert {p.name for p in (tmp_path / "one").rglob("*")} - {"events"} >= {"result.json", "last.pt"}
    assert sorted(p.name for p in (tmp_path / "two").iterdir()) == sorted(p.name for p in (tmp_path / "one").iterdir())
    mine, theirs = lines(tmp_path / "two"), lines(tmp_path / "one")
    assert [line.keys() for line in mine] == [line.keys() for line in theirs]
    assert mine[0] == theirs[0]  # the untrained encoder
    for i in (1, 2):  # later, rounding has grown: as it does between memory formats
        assert mine[i]["train/loss"] == pytest.approx(theirs[i]["train/loss"], rel=1e-5)
    again = program(*QUICK, "devices=2", "hydra.run.dir=two", cwd=tmp_path)
    assert "done already" in again.stdout


def test_torchrun_is_the_same_run_and_can_be_killed(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(ROOT / "train.py")]
    words = [*QUICK, "epochs=12", "hydra.run.dir=run"]
    env = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [*torchrun, *words], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(tmp_path / "run/checkpoints/last.pt", process)
    process.send_signal(signal.SIGTERM)
    process.wait()
    done = subprocess.run([*torchrun, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("resuming after epoch") == 1
    logged = lines(tmp_path / "run")
    assert [line["step"] for line in logged] == sorted(line["step"] for line in logged)
    assert sum("train/loss" in line for line in logged) == 12 * (1438 // 256)
    one = program(*words, "hydra.run.dir=one", "epochs=13", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    mine, theirs = (next(line for line in some if "train/loss" in line) for some in (logged, lines(tmp_path / "one")))
    assert mine["train/loss"] == pytest.approx(theirs["train/loss"], rel=1e-5)


def test_refusals_of_several_processes_are_one_sentence(tmp_path):
    for words, said in (
        (["devices=3"], "try batch_size=255"),
        (["devices=0"], "try devices=2"),
        (["devices=2", "loss=debiased_pos", "tau_plus=0.001"], "tau_plus * batch_size"),
        (["devices=2", "loss=nt_xent", "regularizer=end"], "bias labels"),
    ):
        done = program(*QUICK, *words, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("whom", ["parent", "all"])
def test_ctrl_c_ends_all_processes_quietly(tmp_path, whom):
    words = [*TINY, "epochs=400", "devices=2", "hydra.run.dir=run"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *words],
        cwd=tmp_path,
        env=ONE_THREAD,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    wait_for(tmp_path / "run/checkpoints/last.pt", process)
    (os.killpg if whom == "all" else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)  # the pipes close when the last process has gone
    assert process.returncode == 130
    assert "same command again" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert not (tmp_path / "run/result.json").exists()
