"""Smaller models of a model: fewer layers, attention heads or word pieces."""
