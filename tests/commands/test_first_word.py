"""The model in a line whose flags depend on the model: the word that is no value of a flag."""

import pytest

from bertsmith.commands.first_word import find_model
from bertsmith.commands.settings import compress, evaluate, predict


@pytest.mark.parametrize(("settings", "line", "model"), [
    (predict, "MODEL text", "MODEL"),
    (predict, "--json MODEL text", "MODEL"),
    (predict, "--help MODEL", "MODEL"),
    (predict, "--help-all MODEL", "MODEL"),
    (predict, "--file MODEL", None),
    (predict, "--file a.csv MODEL", "MODEL"),
    (predict, "--file=a.csv MODEL", "MODEL"),
    (predict, "-- MODEL text", "MODEL"),
    (predict, "- MODEL", "MODEL"),
    (evaluate, "--text-column body MODEL", "MODEL"),
    (compress, "--vocabulary a.txt b.txt --out small MODEL", "MODEL"),
    (compress, "--vocabulary a.txt b.txt --no-keep-characters MODEL", "MODEL"),
    (compress, "--vocabulary=a.txt MODEL", "MODEL"),
    (compress, "--vocabulary a.txt MODEL", None),  # tyro reads it as one more text
    (compress, "--vocabulary a.txt -- MODEL", "MODEL"),
])  # fmt: skip
def test_the_model_is_the_word_that_is_no_value(settings, line, model):
    assert find_model(settings.Settings, line.split()) == model
