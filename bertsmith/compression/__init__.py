"""Smaller copies of a model: fewer layers, attention heads or tokens."""
