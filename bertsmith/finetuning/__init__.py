"""Fine-tuning: a pre-trained model and labelled examples → a model for a task.

One run is in `run.py`, several are in `series.py`. Settings are in `tasks/settings/`, the defaults
that depend on the model or the examples in `resolve.py`.
"""
