"""Two processes against one on the same global batch."""

import time
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo  # so that forked processes have it already
from torch import nn

from contrastive.distributed.batch_norm import convert_batch_norm, views_apart
from contrastive.distributed.process import (
    any_process,
    average_gradients,
    broadcast_from_main,
    main_process_first,
    rank,
    shard,
    world_size,
)
from contrastive.errors import ConfigError
from contrastive.evaluator.published import OnlineProbe
from contrastive.experiment.build import build as build_experiment
from contrastive.experiment.make import make
from contrastive.gathering import gather
from contrastive.run.files import read_result
from contrastive.seeding import generator
from contrastive.training.features import extract
from contrastive.types import Data, Split
from tests.helpers import TINY, encoded
from tests.run.test_run_directory import RESULT, opened, write_weights

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        torch.cuda.is_available(),
        reason="forked processes inherit no GPU: try again with CUDA_VISIBLE_DEVICES= in front",
    ),
]
N = 12
BIASED = ["dataset=biased_digits", "encoder.width=2"]


def batch():
    image = torch.randint(0, 256, (N, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    bias = torch.arange(N) // 2 % 4
    return Split(image, torch.arange(N) % 3, bias, torch.eye(4)[bias], mistaken=bias == 0)


def normalized(dtype, n_views, backend=None):
    """Layers on views of 12 images: values and gradients of all processes, and what the layers keep."""
    rng, local, results = torch.Generator().manual_seed(0), shard().of(N), []
    bare = nn.BatchNorm1d(4, affine=False, track_running_stats=False)
    for norm, shape in ((nn.BatchNorm2d(4), (4, 3, 3)), (nn.BatchNorm1d(5), (5,)), (bare, (4, 5))):
        x, w = (torch.randn(n_views, N, *shape, generator=rng, dtype=torch.float64).to(dtype) for _ in range(2))
        norm = norm.to(dtype)
        if norm.affine:
            norm.weight.data = torch.arange(1, shape[0] + 1).to(dtype)
        if len(shape) == 1:
            norm.register_parameter("bias", None)  # scaled and not shifted
        norms = convert_batch_norm(norm)
        free = (x[:, local] + 2).requires_grad_()
        forward = norm if backend is None else torch.compile(norm, backend=backend, fullgraph=True)
        with views_apart(norms, n_views):
            out = forward(free.flatten(0, 1)).view_as(free)
        (out * w[:, local]).sum().backward()
        average_gradients(norm.parameters())
        results += [gather(t.transpose(0, 1).contiguous()) for t in (out.detach(), free.grad)]
        results += [p.grad * world_size() for p in norm.parameters()] + list(norm.buffers())
    return results


@pytest.mark.parametrize("n_views", [1, 3])
@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.smoke), 4])
def test_batch_norm_across_processes(together, world, n_views):
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        alone = normalized(dtype, n_views)
        for shared in together(lambda d=dtype: normalized(d, n_views), world):
            for mine, expected in zip(shared, alone, strict=True):
                assert (mine - expected).abs().max() <= tolerance * expected.abs().max()


def test_compiled_batch_norm_across_processes_is_one_graph(together):
    for shared in together(lambda: normalized(torch.float64, 3, "aot_eager")):
        torch.testing.assert_close(shared, normalized(torch.float64, 3))


def refuse():
    raise ConfigError("no: try yes")


def refused(task):
    try:
        task()
    except ConfigError as error:
        return str(error)


def body_on_main_first(path, error=None):
    """Rank 0 writes a file that the other ranks read."""
    with main_process_first():
        if rank() == 0:
            time.sleep(0.3)
            path.write_text("written")
            if error:
                raise ConfigError(error)
        return path.read_text()


def test_the_main_process_goes_first_and_its_result_or_error_is_that_of_all(together, tmp_path):
    assert together(lambda: broadcast_from_main(lambda: rank())) == [0, 0]
    assert together(lambda: body_on_main_first(tmp_path / "file")) == ["written"] * 2
    tasks = [lambda: broadcast_from_main(refuse), lambda: body_on_main_first(tmp_path / "other", "no: try yes")]
    for task in tasks:
        assert together(lambda task=task: refused(task)) == ["no: try yes"] * 2
        assert refused(task) == "no: try yes"  # a single process just runs the body


def read_when_finished(path):
    def write_slowly(path):
        time.sleep(0.3)
        return write_weights(path)

    with opened(path, writable=rank() == 0) as run:
        run.finish(RESULT, write_slowly)
    return read_result(path)["test"]


def test_every_process_of_a_script_reads_the_result(together, tmp_path):
    assert together(lambda: read_when_finished(tmp_path / "run")) == [RESULT["test"]] * 2


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param([], marks=pytest.mark.smoke),
        ["loss=debiased_pos", "n_views=3", "views_forward=per_view", "noise_frac=0.5"],
        [*BIASED, "loss=eps_supinfonce", "regularizer=fairkl", "sampler=bias_balanced", "encoder=simple_convnet"],
        [*BIASED, "dataset.rho=0.9", "experiment=bc_bb", "regularizer.batch_size=128"],
        [*BIASED, "experiment=hong_yang_lnl"],
        pytest.param(["loss=sogclr", "average=ema"], marks=pytest.mark.smoke),
        ["loss=glofnd", "loss.start=0", "sampler=class_balanced"],
        ["loss=visreg", "loss.n_directions=64", "n_views=3"],
        [*BIASED, "loss=group_dro", "loss.step_size=1", "sampler=group_balanced"],
        ["teacher=ema", "head=predictor", "teacher.queue=300"],
        ["teacher=ema", "loss=byol", "head=predictor", "views_forward=per_view"],
    ],
)  # fmt: skip
def test_a_step_moves_the_weights_as_one_process_would(composed, together, extra):
    cfg = composed(*TINY, "epochs=1", "precision=fp32", "log_every=1", *extra)

    def steps():
        built = build_experiment(cfg)
        step, rng, normalize = built.step, generator("cpu", 0), built.step.normalize
        for module in (step.encoder, step.head, step.objective):
            module.double()
        step.normalize = lambda x: normalize(x).double()
        followers = [hook for hook in (built.average, built.teacher) if hook is not None]
        for hook in followers:
            hook.encoder.double()
        if built.teacher is not None:
            built.teacher.network.double()
        average = followers[0].encoder.state_dict() if followers else {}
        for n, images in zip(range(1, 4), built.loader.epoch(0), strict=False):
            output = step(images, rng)
            for hook in followers:
                hook.on_step(SimpleNamespace(step=step, steps_done=n), output)
        averaged = {f"average.{key}": value for key, value in average.items()}
        return step.encoder.state_dict() | step.objective.state_dict() | averaged

    alone = steps()
    for shared in together(steps):
        for key, value in alone.items():
            torch.testing.assert_close(shared[key], value, rtol=1e-5, atol=1e-7, msg=key)


def features():
    torch.manual_seed(0)
    return extract(make("encoder/resnet18", width=2), batch(), lambda x: x / 255, torch.arange(N - 1)).h


def layer_trained_along():
    along, rng = OnlineProbe(), torch.Generator().manual_seed(0)
    along.prepare(dim=16, n_classes=3, device=torch.device("cpu"), seed=0)
    for _ in range(4):
        h, label = torch.randn(N, 1, 16, generator=rng), torch.randint(0, 3, (N,), generator=rng)
        along.observe(gather(h[shard().of(N)]), gather(label[shard().of(N)]))
    return along.linear.weight.detach()


def features_of_batches():
    """Batches of five images, of which two processes encode three each."""
    torch.manual_seed(0)
    encoder, split, rows = make("encoder/resnet18", width=2), batch(), torch.arange(N)
    options = {"classes": ("a", "b", "c"), "mean": (0.0,) * 3, "std": (1.0,) * 3}
    data = Data(pretrain=split, probe_train=rows[:11], probe_val_index=rows[5:], test=split, **options)
    images = encoded(encoder, data, lambda x: x.float() / 255)
    batches = rows[:11].split(5)
    parts = [*images.encode("train", batches), *images.encode("bank", batches, make("augmentation/simclr"))]
    return [(part.h, part.label) for part in parts]


@pytest.mark.parametrize("task", [features, features_of_batches, layer_trained_along])
def test_evaluation_of_two_processes_equals_one(together, task):
    alone = task()
    for shared in together(task):
        torch.testing.assert_close(shared, alone)


def test_what_one_process_knows_all_agree_on(together):
    assert together(lambda: any_process(False, rank() == 1, True)) == [[False, True, True]] * 2
