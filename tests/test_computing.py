"""Which choices a test asks for is noted, also by the programs that it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from computing import ASKED_OF_PROGRAMS, CHOICES
from refusals import PROJECT

from bertsmith.model.attention_paths import attention_path
from bertsmith.model.prepacked import can_prepack
from bertsmith.system.compute import Compute
from bertsmith.system.hardware import compute_settings, select_precision
from bertsmith.system.measurements import CACHE_NAME

CPU = torch.device("cpu")


def train(threads):
    with compute_settings(Compute(device="cpu", precision="fp32", threads=threads)):
        pass


@pytest.fixture
def asked(request):
    """The choices that this test has asked for."""
    plugin = request.config.pluginmanager.get_plugin("computing")

    def asked():
        plugin.note_other_processes()
        return plugin.asked.get(request.node.nodeid, set())

    return asked


@pytest.mark.parametrize("ask, choices", [
    (lambda: select_precision("fp32", CPU), set()),
    (lambda: select_precision("auto", CPU), {"attention", "precision"}),
    (lambda: attention_path(torch.float32, False, 32), {"attention"}),
    (lambda: train(threads=1), {"attention"}),
    (lambda: train(threads=None), {"attention", "threads"}),
    (can_prepack, {"packing"}),
], ids=["named", "auto", "attention", "threads named", "threads", "packing"])  # fmt: skip
def test_choices_are_noted(asked, ask, choices):
    ask()
    assert asked() == choices


@pytest.mark.parametrize("words, named", [
    ([], set()), (["--precision", "fp32", "--threads", "1"], {"precision", "threads"}),
], ids=["nothing", "options"])  # fmt: skip
def test_a_program_that_reads_measurements_asks_for_what_its_line_does_not_name(
    asked, words, named
):
    path = Path(os.environ["XDG_CACHE_HOME"]) / "bertsmith" / CACHE_NAME
    subprocess.run([sys.executable, "-c", f"open({str(path)!r})", *words], check=True)
    assert asked() == ASKED_OF_PROGRAMS - named


def test_a_kind_repeats_what_asked_for_its_choices_in_its_folders():
    unpacked = CHOICES["fp32-fused-unpacked"]
    assert unpacked.repeats("tests/tasks/test_a.py::test_b[c/d]", {"attention", "packing"})
    assert unpacked.repeats("tests/test_a.py::test_b", {"packing"})
    assert not unpacked.repeats("tests/tasks/test_a.py::test_b", {"attention"})
    assert not unpacked.repeats("tests/pages/test_a.py::test_b", {"packing"})
    assert CHOICES["bf16-fused-2"].repeats("tests/pages/test_a.py::test_b", {"threads"})
    assert CHOICES["fp32-fused"].repeats("tests/pages/test_a.py::test_b", {"attention"})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell who opens a file")
def test_another_program_asks_for_nothing(asked):
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert asked() == set()


LEAKING = """
import os

def test_one():
    os.environ["LEFT_BY_A_TEST"] = "1"

def test_another():
    assert "LEFT_BY_A_TEST" not in os.environ
"""


@pytest.mark.same_on_all_computers
def test_pytest_without_its_cache_and_a_test_that_leaves_a_variable(tmp_path):
    """A whole run, of one file: only the test that left the variable has an error."""
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    paths = (PROJECT, PROJECT / "tests", PROJECT / "tests/support")
    ended = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "conftest",
            "-o", f"testpaths={tmp_path}", "--color", "no",
        ],
        cwd=PROJECT, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.stderr == ""
    assert "left changed: LEFT_BY_A_TEST" in ended.stdout
    assert "ERROR at teardown of test_one" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("2 passed, 1 error")
