"""A trace of some training steps, and the operations that take most of their time."""

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput

WAIT, WARM_UP, STEPS = 8, 2, 20  # the first steps compile, choose algorithms and fill caches
ROWS = 50


def profiler(folder: Path, *, steps: int, device: torch.device) -> profile:
    """Record 20 of the coming training steps, or fewer where there are fewer; its `step()` is called after each.

    An evaluation or a checkpoint between them is recorded too. When they are over, or training ends before, it writes

        trace.json.gz   for https://ui.perfetto.dev or chrome://tracing
        operations.txt  operations in order of their own time on the device, summed

    Args:
        folder: made if missing.
        steps: of the rest of the training, at least 1.
    """

    def write(recorded: profile) -> None:
        folder.mkdir(exist_ok=True)
        recorded.export_chrome_trace(str(folder / "trace.json.gz"))
        order = f"self_{'cuda' if device.type == 'cuda' else 'cpu'}_time_total"
        (folder / "operations.txt").write_text(recorded.key_averages().table(sort_by=order, row_limit=ROWS) + "\n")

    active = max(1, min(STEPS, steps - WARM_UP))
    warm_up = min(WARM_UP, steps - active)
    wait = min(WAIT, steps - active - warm_up)
    return profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])],
        schedule=schedule(wait=wait, warmup=warm_up, active=active, repeat=1),
        on_trace_ready=write,
    )


class Profiling(Hook):
    """Records what `profiler` does, from the first step of this process on.

    Args:
        folder: made if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recording: profile | None = None

    def on_start(self, training: Training) -> None:
        if rest := training.epochs * len(training.loader) - training.steps_done:
            self.recording = profiler(self.folder, steps=rest, device=training.loader.device)
            self.recording.start()

    def on_step(self, training: Training, output: StepOutput) -> None:
        if self.recording is not None:
            self.recording.step()

    def close(self) -> None:
        if self.recording is not None:
            self.recording.stop()
