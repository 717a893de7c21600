"""Documents to batches. Numpy up to batches.py, which is where torch begins."""
