"""A run that cannot be resumed names what differs as it is typed."""

import dataclasses
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from bertsmith.commands.catalog import help_page
from bertsmith.distillation.objective import DistillationWeights
from bertsmith.errors import ConfigError, as_flags
from bertsmith.finetuning.resolve import FinetuneConfig
from bertsmith.lineage.pretraining_run import CorpusRunConfig
from bertsmith.lineage.system import SYSTEMS
from bertsmith.lineage.translation_run import TranslationConfig
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.tasks.catalog import tasks
from bertsmith.training.run_config import check_same, describe_change


def names_of(cls, prefix=""):
    """The dotted names of the settings that a resumed run must share."""
    for field in dataclasses.fields(cls):
        if field.metadata.get("resume") == "free":
            continue
        hint = get_type_hints(cls)[field.name]
        inner = [kind for kind in (hint, *get_args(hint)) if dataclasses.is_dataclass(kind)]
        if inner:
            yield from names_of(inner[0], f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


UNCHANGED = re.compile(
    r"optim\.(optimizer|adam_.*|schedule|decay_fraction|max_grad_norm|shared_parts)"
)
"""Settings of a fine-tuning that nothing changes: no flag sets them."""
COMMANDS = {
    "pretrain": [*names_of(PretrainConfig)],
    "distill pretraining": [
        *names_of(DistillationWeights, "teaching."),
        "teaching.teacher",
        "source",
        "source_weights.teacher",
    ],
    **{system.command: [*names_of(CorpusRunConfig)] for system in SYSTEMS.values()},
    "finetune translate": [*names_of(TranslationConfig)],
    **{
        f"finetune {name}": [
            *(each for each in names_of(FinetuneConfig) if not UNCHANGED.fullmatch(each)),
            *names_of(task, "task_settings."),
            *names_of(DistillationWeights, "teaching."),
        ]
        for name, task in tasks().items()
    },
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_is_told_by_a_flag(command):
    flags = {each.name.replace("--no-", "--") for each in help_page(command).options}
    others = {"teaching.teacher": 0} if "teaching.teacher" in COMMANDS[command] else {}
    if command == "finetune translate":
        others = {"system": "translate"}
    for name in COMMANDS[command]:
        sentence = as_flags(describe_change(name, {**others, name: 1}, {**others, name: 2}))
        assert "." not in sentence and "_" not in sentence, name
        assert set(re.findall(r"--[a-z0-9-]+", sentence)) <= flags, name


def test_a_run_without_the_best_weights_is_not_said_to_have_other_examples():
    before = {"best": {"metric": "accuracy", "from_start": False}, "held_out_sha256": "a"}
    with pytest.raises(ConfigError) as raised:
        check_same(Path("run"), before, {"held_out_sha256": "b"})
    message = as_flags(raised.value.message)
    assert "--eval have changed" in message and "--train" not in message


@pytest.mark.parametrize(
    "name",
    ["hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "pooling",
     "dropout", "dropout_rate", "resid_pdrop"],
)  # fmt: skip
def test_a_setting_that_leaves_the_shape_as_it_is_is_named(name):
    with pytest.raises(ConfigError) as raised:
        check_same(Path("run"), {"model": {name: 0.3}}, {"model": {name: 0.0}})
    message = raised.value.message
    assert " was 0.3, is now 0.0. " in message and "shape" not in message
