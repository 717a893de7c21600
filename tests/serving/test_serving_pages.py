"""The programs and files of docs/serving.md, in both languages: they run, or name what exists."""

import configparser
import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from model_server import serving

from bertsmith.commands.settings.serve import parse

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8080"
PAGES = {
    language: path.read_text(encoding="utf-8")
    for language, path in (("en", DOCS / "serving.md"), ("zh", DOCS / "zh" / "serving.md"))
}
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


@pytest.mark.same_on_all_computers
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


def block(page, first_line):
    """A block of code of a page, from its first line on."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (found,) = [code for code in blocks if code.startswith(first_line)]
    return found


@pytest.mark.parametrize("language", PAGES)
def test_the_unit_of_systemd_runs_a_command_that_exists(language):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(block(PAGES[language], "[Unit]\n"))
    program, command, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, command) == ("bertsmith", "serve")
    settings = parse(words, "bertsmith serve")
    assert settings.models == ("films=/srv/models/films",)
    assert unit["Service"]["SuccessExitStatus"] == "143"  # SIGTERM, with which systemd stops
    assert int(unit["Service"]["TimeoutStopSec"]) > settings.timeout


@pytest.mark.parametrize("language", PAGES)
def test_the_container_file_runs_a_command_that_exists(language):
    file = block(PAGES[language], "FROM ").replace("\\\n", "")
    steps = dict(line.split(maxsplit=1) for line in file.splitlines())
    program, command, *words = json.loads(steps["ENTRYPOINT"]) + json.loads(steps["CMD"])
    assert (program, command) == ("bertsmith", "serve")
    settings = parse(words, "bertsmith serve")
    assert settings.models == ("/model",)
    assert str(settings.port) == steps["EXPOSE"]
    _, check = steps["HEALTHCHECK"].split(" CMD ")
    python, option, code = json.loads(check)
    assert (python, option) == ("python", "-c")
    assert f":{settings.port}/health" in code
    compile(code, "HEALTHCHECK", "exec")
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    (extra,) = re.findall(r"/src\[(\w+)\]", steps["RUN"])
    assert extra in project["project"]["optional-dependencies"]


def test_the_files_are_the_same_in_both_languages():
    for first_line in ("[Unit]\n", "FROM ", "limit_conn_zone "):
        assert block(PAGES["en"], first_line) == block(PAGES["zh"], first_line)
