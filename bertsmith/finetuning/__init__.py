"""Labelled examples to a model: one run in `run.py`, several in `series.py`."""
