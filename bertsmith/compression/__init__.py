"""Smaller copies of a model: with fewer layers, or with fewer tokens in the vocabulary."""
