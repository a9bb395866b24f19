"""Files of weights: this project's, with metadata, and those of other projects."""
