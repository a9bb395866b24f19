"""Trained encoders in the formats of others: `python -m contrastive export RUN --onnx`."""
