"""What only a GPU can show, in the first minutes on one: whole small runs, as a user starts them, if that will do."""

import functools
import json
import os
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F

from contrastive import load_encoder, make
from contrastive.cli.evaluate import evaluate_runs, parse_args
from contrastive.cli.export import main as export
from contrastive.config.messages import user_message
from contrastive.distributed.hardware import gpus_for
from contrastive.distributed.pool import Died, run_in_processes
from contrastive.distributed.signals import Stop
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.training.checkpointer import on_host
from contrastive.training.features import extract
from contrastive.training.loader import Loader
from contrastive.training.precision import set_tf32
from contrastive.training.step import TrainStep
from contrastive.types import Split, tensors
from tests import forked
from tests.gpu import gpu_tasks
from tests.helpers import ROOT, check_same, compose_settings, logged_lines, run_until_step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is only one GPU here")

# cuBLAS decides once, in the first matrix product of a process, whether it may be asked for the same bits.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

# 1,437 digits of 16 pixels, 11 steps an epoch, a ResNet-18 with an eighth of the channels
SMALL = ["device=cuda", "compile=false", "graphs=false", "epochs=2", "log_every=4", "evaluator.knn.every=1"]
SMALL += ["++evaluator.linear.max_iter=5", "++evaluator.few_shot.max_iter=5"]
LARGE = ["batch_size=1024", "dataset.size=32", "encoder.width=16"]
NOISE = ["noise_frac=0.3", "blur_frac=0.3"]
PER_VIEW = ["loss=debiased_pos", "views_forward=per_view", "n_views=3"]
BIASED = ["dataset=biased_digits", "dataset.rho=0.9"]
LNL = [*BIASED, "experiment=hong_yang_lnl"]
UNIFORM = ["regularizer=bias_balanced", "regularizer.stream=uniform", "regularizer.batch_size=64"]
KINDS = [
    [*NOISE, "loss=nt_xent"], [*NOISE, "loss=hard_negative", "grad_cache_chunk=50"], [*NOISE, "resident=false"],
    [*NOISE, "optimizer=lars", "optimizer.lr=5"], [*NOISE, *PER_VIEW], [*NOISE, *PER_VIEW, "compile=true"],
    [*BIASED, "regularizer=fairkl", "sampler=bias_balanced"], [*BIASED, *UNIFORM], LNL,
]  # fmt: skip
# As short as they allow; those that name groups of images come after the ones that they read.
EVALUATORS = [path.stem for path in sorted((ROOT / "configs/evaluator").glob("*.yaml"))]
EVALUATORS.sort(key=lambda name: name.endswith("audit"))
BRIEF = ["evaluator.fine_tune.epochs=1", "evaluator.fine_tune.min_steps=2", "evaluator.fine_tune.lr=[0.1]"]
BRIEF += ["evaluator.adam_probe.epochs=1", "evaluator.few_label.draws=1"]
BRIEF += ["evaluator.linear_sgd.epochs=1"]
BRIEF += ["evaluator.dfr.draws=1", "evaluator.dfr.l2=[0.1]"]
BRIEF += [f"evaluator.{name}.max_iter=4" for name in ("linear", "few_shot", "few_label", "dfr")]
ON_TWO = [pytest.param([*words, "devices=2"], marks=two_gpus) for words in (PER_VIEW, LNL)]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """No test sees what another one has set; float32 is float32."""
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    set_tf32("fp32")
    torch.cuda.set_device(0)
    torch.compiler.reset()  # torch compiles a function for eight kinds of input at most


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a run with the default settings, profiled."""
    path = tmp_path_factory.mktemp("finished")
    run_experiment(compose_settings(*SMALL, "compile=auto", "graphs=auto", "profile=true"), path)
    return path


@contextmanager
def no_waits() -> Iterator[None]:
    """Within, what waits for the device raises RuntimeError."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


# The numbers are right


@pytest.mark.parametrize("words", [*KINDS, *ON_TWO], ids=" ".join)
def test_losses_are_those_of_the_cpu(composed, tmp_path, words):
    """Without random views, which differ, a GPU has the weights, batches and noise of a CPU."""
    losses = []
    for where in (["device=cuda"], ["device=cpu", "compile=false", "devices=1"]):
        path = tmp_path / where[0]
        overrides = [*SMALL, "augmentation=none", "epochs=1", "log_every=1", "precision=fp32", *words, *where]
        run_experiment(composed(*overrides), path)
        lines = logged_lines(path)
        losses.append(torch.tensor([line["train/loss"] for line in lines if "train/loss" in line])[:3])
    torch.testing.assert_close(losses[0][0], losses[1][0], rtol=1e-4, atol=1e-5)
    # 1e-7 in the inputs grows: to 2e-4 after two updates, to 2e-2 after four
    torch.testing.assert_close(losses[0], losses[1], rtol=5e-3, atol=1e-3)


@pytest.mark.parametrize(
    "words", [["precision=bf16"], ["precision=fp16"], ["precision=tf32"], ["evaluator=[knn,online_probe]"]]
)
def test_a_run_learns(composed, tmp_path, words):
    result = run_experiment(composed(*SMALL, *words), tmp_path)
    losses = [line["train/loss"] for line in logged_lines(tmp_path) if "train/loss" in line]
    assert losses[-1] < losses[0] - 0.1
    assert result["test"]["knn_top1"] > 50


def test_tf32_rounds_convolutions_alone():
    x = torch.randn(16, 64, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    w, a = torch.randn(64, 64, 3, 3, device="cuda"), torch.randn(2, 1024, 1024, device="cuda")

    def convolution(dtype):
        return F.conv2d(x.to(dtype), w.to(dtype))

    for operation in (convolution, lambda dtype: a[0].to(dtype) @ a[1].to(dtype)):
        exact, errors = operation(torch.float64), {}
        for word in ("fp32", "tf32"):
            set_tf32(word)
            errors[word] = ((operation(torch.float32) - exact).norm() / exact.norm()).item()
        assert errors["fp32"] < 3e-5
        assert 1e-4 < errors["tf32"] < 3e-3 if operation is convolution else errors["tf32"] < 3e-5


# Nothing waits


def test_a_wait_is_noticed():
    x = torch.ones(3, device="cuda")
    for wait in (lambda: x.sum().item(), lambda: x.cpu(), lambda: torch.ones(3).to("cuda"), lambda: x[x > 0]):
        with pytest.raises(RuntimeError, match="synchronizing"), no_waits():
            wait()


@pytest.mark.parametrize("words", [*KINDS, ["compile=auto"]], ids=" ".join)
def test_batches_and_steps_never_wait(composed, words):
    built = build(composed(*SMALL, *words))
    rng, batches = generator(built.device, 0), built.loader.epoch(0)
    for _ in range(3):  # compiles, chooses algorithms, fills caches
        built.step(next(batches), rng)
    with no_waits():
        for _ in range(3):
            built.step(next(batches), rng)


def test_features_of_three_chunks_wait_as_often_as_of_one(composed):
    built = build(composed(*SMALL))

    def waits(n: int) -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            extract(built.step.encoder, built.data.pretrain, built.step.normalize, torch.arange(n))
            torch.cuda.set_sync_debug_mode("default")
        return sum("called a synchronizing" in str(warning.message) for warning in caught)

    assert waits(1400) == waits(400) > 0


def queued(x: torch.Tensor) -> torch.Tensor:
    """Some tenths of a second of kernels, which the host does not wait for."""
    for _ in range(30):
        x = (x @ x).tanh()
    return x


def test_streamed_batches_are_those_of_the_device_bit_for_bit():
    """Each is read long after the host has let it go, and copies of later batches would fit into its memory."""
    image = torch.randint(0, 256, (3000, 3, 96, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    split, x = Split(image, torch.arange(3000)), torch.randn(8192, 8192, device="cuda")
    options = {"batch_size": 200, "seed": 0, "noise_frac": 0.3}
    streamed = Loader(split, device=torch.device("cuda", 0), streaming=True, **options)
    resident = Loader(split.to("cuda"), **options)
    for epoch in range(3):
        found = []
        for batch in streamed.epoch(epoch):
            x = queued(x)
            found.append([value.clone() for value in tensors(batch)])
            del batch
        for mine, theirs in zip(found, resident.epoch(epoch), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(mine, tensors(theirs), strict=True))


def test_features_of_images_of_the_host_are_those_of_the_device_bit_for_bit():
    image = torch.randint(0, 256, (5000, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    split, net = Split(image, torch.arange(5000)), make("encoder/resnet18", width=8).to("cuda")

    def normalize(image: torch.Tensor) -> torch.Tensor:
        return image / 255

    host, device = (extract(net, images, normalize) for images in (split, split.to("cuda")))
    assert torch.equal(host.h, device.h) and torch.equal(host.label, device.label)


# Runs go on where they were


@pytest.mark.parametrize(
    "words",
    [
        ["loss=nt_xent", "evaluator=[knn,linear,few_shot,online_probe]"],
        ["loss=debiased_pos", "grad_cache_chunk=50", "precision=fp16"],
        ["resident=false", *NOISE, "optimizer=lars"], ["compile=true"], LNL,
        [*BIASED, "regularizer=fairkl", "sampler=bias_balanced", "evaluator=[knn,linear,bias_audit]"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_resume_is_bit_exact_with_deterministic(composed, tmp_path, monkeypatch, capsys, words):
    settings, (whole, stopped) = composed(*SMALL, *words, "deterministic=true"), (tmp_path / "a", tmp_path / "b")
    run_experiment(settings, whole)
    told_to_end(TrainStep, settings, stopped, monkeypatch)
    run_experiment(settings, stopped)
    assert "resuming after epoch 1 and 5 of 11 batches" in capsys.readouterr().out
    check_same(stopped, whole)


def told_to_end(kind, settings, path, monkeypatch):
    """A run that SIGTERM ends inside the second epoch."""
    with monkeypatch.context() as patch:
        patch.setattr(kind, "__call__", kind.__call__)  # which is what is restored
        forked.at_call(kind, "__call__", 15, functools.partial(signal.raise_signal, signal.SIGTERM))
        with pytest.raises(Stop):
            run_experiment(settings, path)


def test_resume_is_bit_exact_after_kill_9(tmp_path, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")  # the program sets it
    words = [*SMALL, "epochs=3", "evaluator=[knn]", "deterministic=true", "checkpoint_every=1", "hydra.run.dir=run"]
    (tmp_path / "whole").mkdir(), (tmp_path / "killed").mkdir()
    whole = forked.Program(*words, cwd=tmp_path / "whole")
    in_the_third_epoch = functools.partial(forked.at_call, TrainStep, "__call__", 25, forked.kill_me)
    killed = forked.Program(*words, cwd=tmp_path / "killed", fault=in_the_third_epoch)
    assert (whole.wait(), killed.wait()) == (0, -signal.SIGKILL), whole.said + killed.said
    again = forked.Program(*words, cwd=tmp_path / "killed")
    assert again.wait() == 0, again.said
    assert "resuming after epoch" in again.said
    check_same(tmp_path / "killed/run", tmp_path / "whole/run")


@pytest.mark.parametrize(("first", "second"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_goes_on_elsewhere(composed, tmp_path, first, second):
    run_until_step(14, composed(*SMALL, f"device={first}", "checkpoint_every=1"), tmp_path)
    result = run_experiment(composed(*SMALL, f"device={second}"), tmp_path)
    assert result["test"]["knn_top1"] > 50


def test_a_checkpoint_is_what_was_there_when_saving_began(composed):
    built = build(composed(*SMALL))
    rng, batches = generator(built.device, 0), built.loader.epoch(0)
    built.step(next(batches), rng)
    live = built.step.state()["encoder"]
    expected = {key: value.clone() for key, value in live.items()}
    copied = on_host(built.step.state(), built.device)["encoder"]
    for _ in range(3):
        built.step(next(batches), rng)
    assert all(torch.equal(copied[key], value.cpu()) for key, value in expected.items())
    assert not torch.equal(copied["conv1.weight"], live["conv1.weight"].cpu())
    assert all(value.is_pinned() for value in copied.values())


# What a finished run leaves


def test_environment_says_how_the_gpu_computed(finished):
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["graphs"] is True  # by default
    assert environment["gpus"] == [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    assert environment["device"] in environment["gpus"]
    assert environment["cudnn"] == torch.backends.cudnn.version()
    assert (environment["precision"], environment["compile"]) == ("bf16", "augmentation")
    assert not environment["tf32_convolutions"] and environment["cudnn_benchmark"]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_run_of_the_gpu_is_evaluated_again(finished, device):
    evaluate_runs(parse_args([str(finished), "evaluator=[knn,linear]", f"device={device}", "rerun=true"]))
    (record,) = (json.loads(path.read_text()) for path in (finished / "evaluation").glob("*.json"))
    result = json.loads((finished / "result.json").read_text())
    for key, value in record["test"].items():
        assert value == pytest.approx(result["test"][key], abs=1)  # 1 % is four images


@pytest.mark.parametrize("data", [[], BIASED], ids=["digits", "biased digits"])
def test_every_evaluator(composed, tmp_path, data):
    words = [*SMALL, *data, *BRIEF, "epochs=1", f"evaluator=[{','.join(EVALUATORS)}]"]
    result = run_experiment(composed(*words), tmp_path)
    silent = {"classifier", "dfr"} | (set() if data else {"bias_audit"})  # dfr: too few images of some groups
    assert set(EVALUATORS) - silent <= set(result["protocol"])


def test_weights_and_onnx_give_the_features_of_the_gpu(finished):
    encoder, transform = load_encoder(finished)
    image = torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8)
    with torch.no_grad():
        expected = encoder.to("cuda")(transform(image.to("cuda"))).cpu()
        torch.testing.assert_close(encoder.cpu()(transform(image)), expected, rtol=1e-3, atol=1e-4)
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    assert export([str(finished), "--onnx"]) == 0
    session = runtime.InferenceSession(finished / "encoder.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["features"], {"image": (image / 255).numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-3, atol=1e-3)


# Memory and processes


def test_automatic_compilation_of_a_short_run_is_of_the_augmentation(composed):
    built = build(composed(*SMALL, "compile=auto"))
    step, batch = built.step, next(built.loader.epoch(0))
    assert step.compile == "augmentation"
    compiled = step.views(batch, generator(built.device, 0))
    drawn = step.augmentation.draw(2 * 128, 16, 16, generator(built.device, 0))
    eager = step.augmentation.apply(torch.cat([batch.image] * 2), drawn)
    torch.testing.assert_close(compiled.flatten(0, 1), eager, rtol=1e-5, atol=1e-5)


def test_too_little_memory_is_a_sentence(composed, tmp_path):
    torch.cuda.empty_cache()
    allowed = torch.cuda.memory_reserved() + 2**28
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.get_device_properties(0).total_memory)
    try:
        with pytest.raises(torch.OutOfMemoryError) as found:
            run_experiment(composed(*SMALL, *LARGE), tmp_path)
        assert re.search(r"too little memory.*try .*grad_cache_chunk", user_message(found.value))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("together", [1, pytest.param(2, marks=two_gpus)])
def test_two_runs_share_the_gpus(tmp_path, together):
    forked.start_server()
    tasks = [gpu_tasks.Run((*SMALL, f"seed={i}"), tmp_path / str(i)) for i in range(2)]
    results = [result for _, result in run_in_processes(tasks, n_parallel=2, gpus=gpus_for([])[:together])]
    assert not [str(result) for result in results if isinstance(result, Died)]
    assert [result[:2] for result in results] == [(False, 1)] * 2
    assert len({gpu for _, _, gpu, _ in results}) == together
    assert all(knn_top1 > 50 for *_, knn_top1 in results)
