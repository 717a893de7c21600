import subprocess
import sys

import pytest

import bertsmith


@pytest.mark.parametrize("name", bertsmith.__all__)
def test_every_public_name_can_be_used(name: str) -> None:
    assert getattr(bertsmith, name) is not None


def test_names_are_sorted_and_complete() -> None:
    assert bertsmith.__all__ == sorted(bertsmith.__all__)
    assert dir(bertsmith) == bertsmith.__all__
    with pytest.raises(AttributeError, match="no attribute 'loadd'"):
        _ = bertsmith.loadd


def test_the_tokenizer_needs_no_torch() -> None:
    program = "import sys, bertsmith; bertsmith.Tokenizer; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
