"""Files to documents, examples and batches; only batches.py imports torch."""
