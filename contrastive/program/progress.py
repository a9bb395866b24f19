"""What the terminal shows while a run trains."""

from tqdm import tqdm

from contrastive.distributed.process import is_main


def progress_bar(start: int, total: int) -> tqdm:
    """A bar over all batches of the run, shown by the main process."""
    hidden = not is_main() or total == 0
    return tqdm(total=total, initial=start, desc="pretraining", unit="batch", mininterval=1, disable=hidden)
