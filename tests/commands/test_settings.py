"""Lines are read without torch, and a prediction imports nothing of training."""

import subprocess
import sys
from subprocess import PIPE

import pytest
from tiny_models import save_tiny

from bertsmith.commands.catalog import COMMANDS
from bertsmith.commands.settings.finetune import TASK_SETTINGS
from bertsmith.tasks.catalog import tasks

NEEDLESS_IN_PREDICTION = {
    "bertsmith.data.predictions",
    "bertsmith.metrics.retrieval",
    "bertsmith.pages.charts",
    "bertsmith.tasks.example_objective",
    "bertsmith.tasks.token_classification",
    "bertsmith.training.model_card",
    "bertsmith.training.trainer",
    "numpy.random",
    "rich",
    "xml.etree.ElementTree",
}


def test_settings_import_neither_torch_nor_numpy():
    program = """
import sys
from bertsmith.commands.catalog import COMMANDS, import_settings
for name in COMMANDS:
    import_settings(name)
    imported = sys.modules.keys() & {"torch", "transformers", "numpy", "pyarrow", "pydantic"}
    assert not imported, f"{name} imports {imported}"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_commands_that_need_no_torch_import_none():
    program = """
import sys
from bertsmith.commands.catalog import COMMANDS, import_work
for name, command in COMMANDS.items():
    if not command.needs_torch:
        import_work(name)
        assert "torch" not in sys.modules, f"{name} imports torch"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.same_on_all_computers
def test_prediction_imports_no_other_task_and_nothing_of_training(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    program = f"""
import sys
from bertsmith.cli import main
main(["predict", {str(folder)!r}, "good film", "--device", "cpu", "--precision", "fp32"])
print(*sorted(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", program], check=True, stdout=PIPE, text=True)
    imported = set(run.stdout.split())
    assert "bertsmith.tasks.text_classification" in imported
    assert not imported & NEEDLESS_IN_PREDICTION


def test_finetune_has_the_settings_of_each_task():
    assert {name: task.settings for name, task in tasks().items()} == TASK_SETTINGS
    for name, settings in TASK_SETTINGS.items():
        assert f"finetune {name}" in COMMANDS
        assert settings.__doc__
