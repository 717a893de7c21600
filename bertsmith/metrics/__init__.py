"""Metrics over gold labels and predictions, equal to the reference libraries'."""
