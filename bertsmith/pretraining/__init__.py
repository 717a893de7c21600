"""A corpus to an encoder: from settings (`resolve.py`) to a run (`run.py`)."""
