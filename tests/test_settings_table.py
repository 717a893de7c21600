"""What command lines come to: each line of a table resolves to the settings that it holds.

A new line is a key of `settings_table.json` with `{}` behind it.
`WRITE_TABLE=1 python -m pytest tests/test_settings_table.py` writes the table anew, which is right
only where a default or a rule was meant to change; the difference then says what it came to.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_tiny_of

from bertsmith.commands import finetune as finetune_command
from bertsmith.commands import pretrain as pretrain_command
from bertsmith.config import to_jsonable
from bertsmith.errors import BertsmithError
from bertsmith.finetuning.resolve import resolve_optim, resolve_steps
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.resolve import resolve_unmeasured

TABLE_FILE = Path(__file__).with_name("settings_table.json")
TABLE: dict[str, dict[str, Any]] = json.loads(TABLE_FILE.read_text(encoding="utf-8"))
FAMILIES = ("bert", "roberta", "albert", "distilbert", "electra", "modernbert")
STEPS_PER_EPOCH = (1, 100, 5000)
UNSET = "not a setting of this line"


@pytest.fixture(scope="session")
def places(tmp_path_factory, corpus_dir):
    """A corpus, and a folder of a tiny model of each family."""
    folder = tmp_path_factory.mktemp("models")
    return {"corpus": corpus_dir, **{name: save_tiny_of(folder / name, name) for name in FAMILIES}}


def resolve_pretrain(line: str, places: dict[str, Path]) -> dict[str, Any]:
    """Return all that decides a pre-training run, as flat JSON."""
    words = [str(places[w[1:]]) if w.startswith("@") else w for w in line.split()]
    length = [] if {"--steps", "--minutes"} & set(words) else ["--steps", "1000"]
    required = ["--corpus", str(places["corpus"]), "--out", "out"]
    settings = pretrain_command.parse([*required, *words, *length], "bertsmith pretrain")
    job = pretrain_command.build_job(settings)
    job.training.check_length()
    config = resolve_unmeasured(job)
    build_objective(config)  # refuses what the corpus lacks
    learnt = config.pretraining
    settings = asdict(learnt)
    if not (learnt.start_steps or learnt.start_share):
        del settings["start_length"]  # it decides nothing
    rules = {f"masking at {step}": asdict(learnt.masking_rule(step)) for step in (1, 80)}
    return {
        "family": config.family,
        **asdict(config.model),
        "position_initializer": config.position_initializer or None,
        "word_initializer": config.word_initializer or None,
        **asdict(config.optim),
        "heads": learnt.heads,
        **rules,
        **settings,
        "steps": job.training.steps,
        "seconds": job.training.minutes and 60 * job.training.minutes,
        **asdict(job.training),
    }


def resolve_finetune(line: str) -> dict[str, Any]:
    """Return all that decides a fine-tuning, as flat JSON."""
    task, *words = line.split()
    required = ["--model", "m", "--train", "t", "--out", "out"]
    settings, _ = finetune_command.parse([*required, *words], f"bertsmith finetune {task}")
    settings.check_held_out()
    tiny, base = BertConfig(100, 128, 2, 2, 512), BertConfig(100, 768, 12, 12, 3072)
    return {
        **asdict(settings),
        "figure": settings.figure,
        "is_series": settings.is_series,
        **{f"steps of {n} an epoch": resolve_steps(settings, n) for n in STEPS_PER_EPOCH},
        **{f"tiny {name}": value for name, value in asdict(resolve_optim(settings, tiny)).items()},
        **{f"base {name}": value for name, value in asdict(resolve_optim(settings, base)).items()},
    }


def resolve(line: str, places: dict[str, Path]) -> dict[str, Any]:
    """Return what a line comes to as JSON, or that it is refused."""
    command, _, said = line.partition(" ")
    try:
        found = resolve_pretrain(said, places) if command == "pretrain" else resolve_finetune(said)
    except (BertsmithError, SystemExit):
        return {"refused": True}
    return json.loads(json.dumps(to_jsonable(found)))


def base_of(line: str) -> str:
    """Return the line of the table to whose settings those of `line` are told as differences."""
    command, *words = line.split()
    return command if command == "pretrain" else f"finetune {words[0]} --eval e"


@pytest.mark.parametrize("line", TABLE)
def test_a_line_comes_to_the_settings_of_the_table(line, places):
    expected = TABLE[line]
    if line != base_of(line) and "refused" not in expected:
        expected = {**TABLE[base_of(line)], **expected}
    expected = {name: value for name, value in expected.items() if value != UNSET}
    assert resolve(line, places) == expected


@pytest.mark.skipif("WRITE_TABLE" not in os.environ, reason="the table is not to be written")
def test_write_the_table(places):
    found = {line: resolve(line, places) for line in TABLE}
    for line in TABLE:
        base = found[base_of(line)]
        if line != base_of(line) and "refused" not in found[line]:
            mine = {name: found[line].get(name, UNSET) for name in {**base, **found[line]}}
            found[line] = {n: v for n, v in mine.items() if n not in base or base[n] != v}
    lines = [f"{json.dumps(line)}: {json.dumps(what)}" for line, what in found.items()]
    TABLE_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
