"""A folder with a comparison, for each test its own."""

import pytest
from lab_files import write_lab


@pytest.fixture
def lab(tmp_path):
    """A folder with `lab.toml` and the task's files."""
    return write_lab(tmp_path)
