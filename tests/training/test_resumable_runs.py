"""A run.json that a run cannot end with is refused before its first step."""

import json
import warnings

import pytest
import torch
from refusals import refuses

from bertsmith.errors import BertsmithWarning, CheckpointError
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.run_machine import (
    INSTRUCTIONS,
    machine_facts,
    warn_other_processor,
)

RUN = {
    "command": "pretrain",
    "settings": {"corpus": "here", "from": None},
    "config": {"model": {"num_hidden_layers": 2, "hidden_size": 128}},
    "data": {"train_documents": 3, "train_tokens": 40, "held_out_unigram_entropy": 2.5},
}
FINE_TUNING = {name: RUN[name] for name in ("settings", "config")}


def check(folder, run, kind):
    (folder / "run.json").write_text(json.dumps(run))
    RunFolder(folder).check(resume=True, overwrite=False, kind=kind)


def changed(run, name, value):
    """Return a copy of `run` in which a fact has this value; None removes it."""
    run = json.loads(json.dumps(run))
    *outer, last = name.split(".")
    inner = run
    for key in outer:
        inner = inner[key]
    del inner[last]
    return run if value is None else (inner.update({last: value}) or run)


def test_what_a_run_wrote_is_resumed(tmp_path):
    check(tmp_path, RUN, "pre-training")
    check(tmp_path, FINE_TUNING, "fine-tuning")
    check(tmp_path, {"series": {"seed": 0, "seeds": 2}, "kind": "seed"}, "series of runs")


@pytest.mark.parametrize("value", [None, "null", [], {}, "a text"], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        *("settings", "config", "config.model", "config.model.hidden_size"),
        *("data", "data.train_documents", "data.train_tokens"),
    ],
)
def test_a_fact_that_the_end_needs_is_missing_or_of_another_type(tmp_path, name, value):
    if (name, value) == ("settings", {}):
        return  # a run without a corpus says nothing of it
    value = [None] if value == "null" else value
    kinds = {"pre-training": RUN}
    if not name.startswith("data"):
        kinds["fine-tuning"] = FINE_TUNING
    for kind, run in kinds.items():
        with refuses(CheckpointError, "run.json: damaged ("):
            check(tmp_path, changed(run, name, value), kind)


def test_a_continued_model_needs_how_it_was_adapted(tmp_path):
    run = changed(RUN, "settings.from", "a-model")
    with refuses(CheckpointError, "'source' is missing"):
        check(tmp_path, run, "pre-training")
    source = {"num_positions": [128, 128]}
    check(tmp_path, {**run, "source": source}, "pre-training")


@pytest.mark.parametrize("plan", [[], "a text", {"rows": "8", "times": 2}, {"rows": 8}], ids=str)
def test_a_plan_of_evaluations_that_is_damaged(tmp_path, plan):
    (tmp_path / "run.json").write_text(json.dumps({**RUN, "config": {"evaluations": plan}}))
    with refuses(CheckpointError, "run.json: damaged ("):
        EvaluationPlan.restore(RunFolder(tmp_path).read_run()["config"]["evaluations"])


def test_a_run_that_goes_on_with_other_instructions_says_so(tmp_path):
    device = torch.device("cpu")
    run = machine_facts(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_other_processor(tmp_path, run, device)
        warn_other_processor(tmp_path, {"machine": {}}, device)  # of an earlier version
    run["machine"][INSTRUCTIONS] = "Another One (01234567), AVX9"
    with pytest.warns(BertsmithWarning):
        warn_other_processor(tmp_path, run, device)
