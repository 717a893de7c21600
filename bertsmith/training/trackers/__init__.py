"""Trackers receive a run's metrics: TensorBoard always, and a service that the user chose.

The service NAME has a file NAME_tracker.py here with a function begin_NAME.
"""
