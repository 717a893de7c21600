"""Compare pre-training recipes under one budget, over several seeds, on one page."""
