"""Scores of a model, or of a file of predictions, and the pages that show them."""
