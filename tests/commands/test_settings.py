"""A command's line is read without torch, so that mistakes and help cost no seconds."""

import subprocess
import sys

from bertsmith.commands.catalog import COMMANDS
from bertsmith.commands.settings.finetune import TASK_SETTINGS
from bertsmith.tasks.catalog import tasks


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


def test_finetune_has_the_settings_of_each_task():
    assert {name: task.settings for name, task in tasks().items()} == TASK_SETTINGS
    for name, settings in TASK_SETTINGS.items():
        assert f"finetune {name}" in COMMANDS
        assert settings.__doc__
