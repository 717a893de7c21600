"""A student learns from a teacher: a task (`run.py`), or a corpus (`pretraining_run.py`)."""
