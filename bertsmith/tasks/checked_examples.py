"""A placeholder for the file of examples, where a function needs a path for its errors."""

from pathlib import Path

CHECKED_EXAMPLES = Path("examples")
"""Path for functions that name the file of examples in their errors, if the file is not known.
These errors do not occur, since the examples were checked when they were read."""
