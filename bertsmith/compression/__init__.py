"""Smaller copies of a model: fewer layers or tokens."""
