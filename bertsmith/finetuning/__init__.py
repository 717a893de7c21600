"""Labelled examples to a model: one run in `run.py`, several in `series.py`.

Settings are in `tasks/settings/`, their defaults in `resolve.py`.
"""
