"""Scores of a model, or of a file of predictions, and pages about them."""
