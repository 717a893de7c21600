"""Settings that name a function of another package."""

import pytest
from refusals import refuses

from bertsmith.errors import ConfigError
from bertsmith.system.named_functions import FunctionSetting

SPLITTER = FunctionSetting(
    setting="splitter",
    example="jieba:lcut",
    advice="It cuts a text into words.",
    lack="cuts no text into words",
)


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "module_with_a_function.py"


def test_a_function_is_imported(module):
    module.write_text("def cut(text):\n    return text.split('-')\n")
    assert SPLITTER.load(f"{module.stem}:cut")("a-b") == ["a", "b"]


@pytest.mark.parametrize("name", ["", "cut", ":cut", "jieba:", ".jieba:cut", "a..b:cut"])
def test_a_name_that_is_not_of_a_module_and_a_function(name):
    with refuses(ConfigError, "it must be module:function, such as jieba:lcut"):
        SPLITTER.load(name)


def test_a_missing_module():
    with refuses(ConfigError, "no_such_module", "Install the package", worded=False):
        SPLITTER.load("no_such_module:cut")


@pytest.mark.parametrize("error", ["TypeError", "ValueError", "OSError"])
def test_an_error_of_the_module_itself_does_not_ask_to_install_it(module, error):
    path = module.with_stem(f"module_with_a_{error}".lower())
    path.write_text(f"raise {error}('at home')\n")
    with refuses(ConfigError, f"the module raised {error}: at home") as refused:
        SPLITTER.load(f"{path.stem}:cut")
    assert "Install" not in str(refused.value)
