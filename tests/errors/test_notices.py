"""Warnings show the line of the caller, and not the package's own."""

import warnings

import pytest
from tiny_models import save_tiny

from bertsmith.errors import BertsmithWarning, issued_warnings, warn_once
from bertsmith.tasks.auto import load


@pytest.fixture(autouse=True)
def nothing_given():
    issued_warnings.clear()
    yield
    issued_warnings.clear()


def caught(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [warning for warning in seen if issubclass(warning.category, BertsmithWarning)]


def test_a_warning_is_given_once_at_the_line_of_its_caller():
    (warning,) = caught(lambda: [warn_once("Mind the gap.") for _ in range(2)])
    assert (warning.filename, str(warning.message)) == (__file__, "Mind the gap.")
    (again,) = caught(lambda: warn_once("Mind the gap.", "another state"))
    assert again.filename == __file__ and again.lineno > warning.lineno


def test_the_line_of_a_program_is_shown_from_however_deep(tmp_path):
    """Decorators and contexts of Python and torch stand between the package's own frames."""
    model = save_tiny(tmp_path / "m", "classify", labels=("neg", "pos"))
    (tmp_path / "a.txt").write_text("a")
    classifier = load(model, device="cpu", precision="fp32")
    given = caught(lambda: classifier(str(tmp_path / "a.txt")))
    assert any("there is a file of this name" in str(warning.message) for warning in given)
    assert {warning.filename for warning in given} == {__file__}
