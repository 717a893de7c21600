"""Scores of a model on labelled data, or of a file of predictions, and the pages that show them.

Metrics are computed in metrics/; here data are read, predicted and compared. An outcome is one
prediction beside the gold (right) answer, with its score.
"""
