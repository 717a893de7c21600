"""`--import MODULE` imports a module of the user before a command and in its processes."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import save_tiny, write_reviews

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.same_on_all_computers

FAMILY = """
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from bertsmith.model.config import BertConfig
from bertsmith.model.families import FAMILIES
from bertsmith.model.families.bert import BERT


@dataclass(unsafe_hash=True)
class OwnConfig(BertConfig):
    model_type: ClassVar[str] = "own"


FAMILIES["own"] = replace(BERT, config=OwnConfig, base_model_prefix="bert")
with Path(__file__).with_name("imported").open("a") as file:
    file.write(f"{os.getpid()}\\n")
"""
NAMES = """
from test_pair_task import WhichHalf  # noqa
from test_token_objective import FocalLM  # noqa

from bertsmith.model.pretraining_catalog import (
    OBJECTIVES, PAIR_TASKS, ObjectiveEntry, PairTaskEntry
)
from bertsmith.tasks.catalog import TASKS
from bertsmith.tasks.regression import Regress

PAIR_TASKS["half"] = PairTaskEntry(
    implementation="test_pair_task:WhichHalf", term="half", title="half", has_head=False
)
OBJECTIVES["focal"] = ObjectiveEntry(
    implementation="test_token_objective:FocalLM", term="focal", title="focal masked LM"
)


class TASK(Regress):
    name: ClassVar[str] = "rate"


TASKS["rate"] = __name__
"""
ENGINE = """
import asyncio
import sys
from pathlib import Path

from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.engine_process import EngineProcess
from bertsmith.system.own_modules import import_modules

import_modules(sys.argv[2:])
settings = EngineSettings(models={"m": Path(sys.argv[1])}, device="cpu", precision="fp32")
engine = EngineProcess(settings, lambda message: None, lambda: None)
try:
    asyncio.run(engine.start())
    print("ready")
finally:
    engine.kill()
"""
FP32 = ["--device", "cpu", "--precision", "fp32"]


@pytest.fixture
def model(tmp_path):
    """Write a module with a family of its own, and a folder of this family."""
    (tmp_path / "my_family.py").write_text(FAMILY)
    folder = save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
    (folder / "SHA256SUMS").unlink()  # the file is changed
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "own"}))
    return folder


def run(folder, *words, text=None):
    """Run Python in a process of its own, which finds the modules in `folder`."""
    command = [sys.executable, *map(str, words)]
    paths = os.pathsep.join(map(str, (folder, ROOT, ROOT / "tests" / "extension")))
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=300, cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip


def test_a_family_of_the_module_is_opened_in_this_process_and_in_workers(model, tmp_path):
    predict = "-m", "bertsmith", "predict", model, "a fine film", *FP32
    done = run(tmp_path, *predict)
    assert (done.returncode, done.stdout) == (2, "")
    assert "model_type is 'own'" in done.stderr and "--import MODULE" in done.stderr
    for flag in (["--import", "my_family"], ["--import=my_family"]):
        done = run(tmp_path, *predict, *flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("\ta fine film\n")
    processes = (tmp_path / "imported").read_text().split()
    assert len(processes) == 2
    train = write_reviews(tmp_path / "a.csv", 40)
    done = run(
        tmp_path, "-m", "bertsmith", "--import", "my_family", "finetune", "classify", "--model",
        model, "--train", train, "--eval", train, "--out", "out", "--steps", 4, "--threads", 2,
        "--exact", *FP32,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "own"
    assert len((tmp_path / "imported").read_text().split()) >= 3


def test_a_family_a_pair_task_and_a_task_of_the_module_have_names_on_the_command_line(
    corpus_dir, tmp_path
):
    (tmp_path / "my_names.py").write_text(FAMILY + NAMES)
    flag = ["--import", "my_names"]
    out = tmp_path / "own-bert"
    done = run(
        tmp_path, "-m", "bertsmith", "pretrain", "--corpus", corpus_dir, "--family", "own",
        "--pairs", "half", "--preset", "tiny", "--steps", 2, "--batch-size", 7, "--max-length", 19,
        "--eval-rows", 7, "--threads", 1, "--out", out, *FP32, *flag,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "config.json").read_text())["model_type"] == "own"
    settings = json.loads((out / "run.json").read_text())["settings"]
    assert settings["pretraining"]["pairs"] == "half"
    assert "Loss: half" in (out / "curves.svg").read_text()
    train = tmp_path / "a.csv"
    train.write_text("text,label\n" + "a fine film,5\na bad film,1\n" * 20)
    done = run(
        tmp_path, "-m", "bertsmith", *flag, "finetune", "rate", "--model", out, "--train", train,
        "--eval", train, "--out", "rated", "--steps", 2, "--threads", 1, *FP32,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    next_line = next(line for line in done.stdout.splitlines() if line.startswith("next"))
    assert next_line.endswith(" --import my_names")
    command = shlex.split(next_line.removeprefix("next"))
    done = run(tmp_path, "-m", *command, *FP32)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\tyour text\n")


def test_an_objective_of_the_module_is_trained_and_the_run_resumed(corpus_dir, tmp_path):
    (tmp_path / "my_names.py").write_text(FAMILY + NAMES)
    flag = ["--import", "my_names"]
    words = [
        "-m", "bertsmith", "pretrain", "--corpus", corpus_dir, "--objective", "focal", "--preset",
        "tiny", "--steps", 2, "--batch-size", 7, "--max-length", 19, "--eval-rows", 7, "--threads",
        2, "--out", "out", *FP32,
    ]  # fmt: skip
    assert "focal" in run(tmp_path, *words).stderr
    done = run(tmp_path, *words, *flag)
    assert done.returncode == 0, done.stderr
    assert "focal masked LM" in (tmp_path / "out" / "curves.svg").read_text()
    done = run(tmp_path, "-m", "bertsmith", "plan", *words[3:-6], *flag)
    assert done.returncode == 0, done.stderr
    record = tmp_path / "out" / "run.json"  # as if it had been killed before its last line
    facts = json.loads(record.read_text())
    record.write_text(json.dumps({key: facts[key] for key in facts if key != "summary"}))
    for known, code in (([], 2), (flag, 0)):
        done = run(tmp_path, *words, "--resume", *known)
        assert done.returncode == code, done.stderr


def test_a_name_of_no_module_is_refused_with_those_of_the_module(tmp_path):
    (tmp_path / "my_names.py").write_text(FAMILY + NAMES)
    flag = ["--import", "my_names"]
    for words, name in (
        (["params", "tiny", "--family", "owm"], "own"),
        (["pretrain", "--corpus", "a", "--out", "b", "--pairs", "hal"], "half"),
        (["pretrain", "--corpus", "a", "--out", "b", "--objective", "foca"], "focal"),
        (["finetune", "rat"], "rate"),
    ):
        done = run(tmp_path, "-m", "bertsmith", *words, *flag)
        assert (done.returncode, done.stdout) == (2, "")
        assert name in done.stderr.replace(words[-1], "", 1)
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[model]\nfamily = "own"\n[pretraining]\npairs = "half"\n')
    words = ["-m", "bertsmith", "pretrain", "--recipe", recipe, "--corpus", "none", "--out", "b"]
    assert "family" in run(tmp_path, *words).stderr
    assert "How long should it train?" in run(tmp_path, *words, *flag).stderr


def test_help_with_the_names_of_the_module(tmp_path):
    (tmp_path / "my_names.py").write_text(FAMILY + NAMES)
    done = run(tmp_path, "-m", "bertsmith", "--import", "my_names", "help", "pretrain")
    assert done.stderr == ""
    assert "|own" in done.stdout and "|half" in done.stdout.replace(" ", "").replace("\n", "")
    for words in (["help", "finetune", "rate"], ["finetune", "rate", "--help"]):
        done = run(tmp_path, "-m", "bertsmith", "--import", "my_names", *words)
        assert done.stderr == ""
        assert done.stdout.startswith("usage: bertsmith finetune rate --model")


def test_the_engine_of_a_server_imports_it(model, tmp_path):
    assert run(tmp_path, "-", model, "my_family", text=ENGINE).stdout == "ready\n"
    assert len((tmp_path / "imported").read_text().split()) == 2


def test_help_needs_no_module(typed):
    words = "finetune", "classify", "--help"
    shown = typed(*words).out
    assert typed("--import", "nowhere_to_be_found", *words).out == shown
    assert typed("--import", "nowhere_to_be_found", "help", *words[:2]).out == shown


@pytest.mark.parametrize(("name", "parts"), [
    ("nowhere_to_be_found", ["No module named 'nowhere_to_be_found'", "PYTHONPATH=."]),
    ("nowhere.to_be_found", ["No module named 'nowhere'", "PYTHONPATH=."]),
    ("my_family.py", ["the name of a module", "my_family"]),
    ("broken_module", ["ZeroDivisionError: division by zero", "--debug"]),
    ("needs_another", ["No module named 'another_one'", "--debug"]),
])  # fmt: skip
def test_a_module_that_cannot_be_imported_is_refused(refused, tmp_path, monkeypatch, name, parts):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_module.py").write_text("1 / 0")
    (tmp_path / "needs_another.py").write_text("import another_one")
    line = refused("params", "--import", name)
    assert all(part in line for part in (f"--import {name}: ", *parts))


def test_the_flag_needs_a_module_and_words_after_two_dashes_are_no_flags(refused, typed, tmp_path):
    for words in (["params", "--import"], ["params", "--import="], ["--import", "--json"]):
        assert "--import needs the name of a module" in refused(*words)
    model = save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
    assert typed("predict", model, *FP32, "--", "--import").out.endswith("\t--import\n")
