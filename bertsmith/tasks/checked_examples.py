"""The file that errors name where the file of the examples is not at hand."""

from pathlib import Path

CHECKED_EXAMPLES = Path("examples")
"""Passed where a function names the file of examples in its errors. These errors do not occur: the
examples were checked when they were read."""
