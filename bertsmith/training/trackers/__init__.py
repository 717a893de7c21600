"""Receivers of a run's metrics: TensorBoard's events always, and a service that the user chose.

Each service has a file here, which is found by its name.
"""
