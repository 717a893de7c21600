"""Receivers of a run's figures: TensorBoard's events always, a service's when it is chosen.

A service is a file here, found by its name.
"""
