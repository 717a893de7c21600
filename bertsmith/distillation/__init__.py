"""Distillation: a student learns a task (`run.py`) or masked LM (`pretraining_run.py`)."""
