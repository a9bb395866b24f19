"""Pages of pictures: of data before training, and of a run after it."""
