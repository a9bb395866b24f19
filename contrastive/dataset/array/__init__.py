"""Images in arrays: on disk, or from Python."""
