"""Pages of pictures: of data before training, of a run after it, and of runs while they run."""
