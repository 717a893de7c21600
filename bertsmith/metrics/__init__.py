"""Metrics over gold (right) labels and predictions, equal to the reference libraries'.

No module here needs torch or knows a task. A report holds the scores of an evaluation.
"""
