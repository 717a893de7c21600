"""Pre-training: a corpus → an encoder, from settings (`resolve.py`) to a run (`run.py`)."""
