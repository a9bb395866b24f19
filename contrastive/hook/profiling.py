"""A trace of some training steps, and the operations that take most of their time."""

from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule

from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput

WAIT, WARM_UP, STEPS = 8, 2, 20  # the first steps compile, choose algorithms and fill caches
ROWS = 50


class Profiling(Hook):
    """Records 20 of the steps from the first one of this process on, or fewer where there are fewer.

    An evaluation or a checkpoint between them is recorded too. When they are over, or training ends before, it writes

        trace.json.gz   for https://ui.perfetto.dev or chrome://tracing
        operations.txt  operations in order of their own time on the device, summed

    Args:
        folder: made if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recording: profile | None = None

    def on_start(self, training: Training) -> None:
        steps = training.epochs * len(training.loader) - training.steps_done
        if steps == 0:
            return
        self.kind = "cuda" if training.loader.device.type == "cuda" else "cpu"
        active = max(1, min(STEPS, steps - WARM_UP))
        warm_up = min(WARM_UP, steps - active)
        wait = min(WAIT, steps - active - warm_up)
        self.recording = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self.kind == "cuda" else [])],
            schedule=schedule(wait=wait, warmup=warm_up, active=active, repeat=1),
            on_trace_ready=self._write,
        )
        self.recording.start()

    def _write(self, recorded: profile) -> None:
        self.folder.mkdir(exist_ok=True)
        recorded.export_chrome_trace(str(self.folder / "trace.json.gz"))
        table = recorded.key_averages().table(sort_by=f"self_{self.kind}_time_total", row_limit=ROWS)
        (self.folder / "operations.txt").write_text(table + "\n")

    def on_step(self, training: Training, output: StepOutput) -> None:
        if self.recording is not None:
            self.recording.step()

    def close(self) -> None:
        if self.recording is not None:
            self.recording.stop()
