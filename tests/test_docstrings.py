"""The examples in docstrings give what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import bertsmith

ROOT = Path(bertsmith.__file__).parent
WITH_EXAMPLES = [path for path in sorted(ROOT.rglob("*.py")) if ">>>" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples(path):
    module = ".".join(["bertsmith", *path.relative_to(ROOT).with_suffix("").parts])
    assert not doctest.testmod(importlib.import_module(module)).failed
