"""The programs of docs/serving.md, in both languages, against a running server."""

import importlib.util
import re
from pathlib import Path

import pytest
from model_server import serving

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8080"
PROGRAMS = [
    pytest.param(program, id=f"{page.relative_to(DOCS)}-{number}")
    for page in (DOCS / "serving.md", DOCS / "zh" / "serving.md")
    for number, program in enumerate(
        re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.fixture(scope="module")
def address(server):
    """A server with the names of models that the pages use."""
    names = {"films": "classify", "words": "masked_lm", "search": "vectors"}
    folders = {name: server.folders[head] for name, head in names.items()}
    with serving(folders) as running:
        yield running.address


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_the_pages_run(program, address, capsys):
    for package in re.findall(r"^from (openai|huggingface_hub) import", program, re.MULTILINE):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    names = {}
    exec(program.replace(ADDRESS, address), names)
    for value in names.values():
        if hasattr(value, "close") and not isinstance(value, type):  # connections of clients
            value.close()
    printed = capsys.readouterr().out
    if "embeddings" in program:
        assert printed == "2 24\n"
    elif "vectors" in names:
        assert names["vectors"].shape == (1, 24)
    else:
        assert names["best"]["score"] >= names["others"][0]["score"]


def test_there_are_programs_in_both_languages():
    assert len(PROGRAMS) == 6
