"""The message of a setting that is not allowed names what is allowed."""

import pytest

from bertsmith.errors import SettingError


@pytest.mark.parametrize("allowed, sentence", [
    ("1 or more", "allowed is 1 or more."),
    (["mrr"], "allowed is mrr."),
    (("mean", "max"), "allowed are mean and max."),
    (["a", "b", "c"], "allowed are a, b and c."),
])  # fmt: skip
def test_one_allowed_name_or_several_are_listed(allowed, sentence):
    assert str(SettingError("metric", "f1", allowed)) == f"metric: found 'f1'; {sentence}"
