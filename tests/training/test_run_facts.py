"""A changed run.json is refused by naming the fact, or all that reads it works."""

import copy
import json

import pytest
from damage import ODD_VALUES
from refusals import refuses

from bertsmith.comparison.gap_evaluation import GapGuess
from bertsmith.comparison.runs import _format_scores, objective_scores
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.finetuning.series import SeriesResult, spreads
from bertsmith.lineage.system_run import flat_summary
from bertsmith.pretraining.from_model import describe_start
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.curves import build_charts
from bertsmith.training.findings import diagnose
from bertsmith.training.model_card import model_card
from bertsmith.training.run_config import check_same
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trainer import Summary

SUMMARY = {
    "steps": 120, "elapsed_seconds": 3.5, "real_tokens": 4000, "tokens_per_second": 1143.2,
    "data_wait_fraction": 0.01, "last_step": {"step": 120, "mlm_loss": 4.5, "mlm_accuracy": 0.25},
    "held_out": {"step": 120, "held_out_mlm_loss": 4.25, "held_out_nsp_accuracy": 0.75},
}  # fmt: skip
PRETRAINING = {
    "command": "pretrain",
    "settings": {"corpus": "corpus", "from": "a-model", "optim": {"max_grad_norm": 1.0}},
    "data": {"train_documents": 3, "train_tokens": 40, "held_out_unigram_entropy": 2.5},
    "config": {
        "model": {"num_hidden_layers": 2, "hidden_size": 128},
        "pretraining": {"start_steps": 7, "masking_schedule_steps": 0, "max_length": 64},
        "evaluations": {"rows": 8, "times": 2},
        "preset": "tiny",
    },
    "source": {
        "folder": "a-model", "num_kept": 46, "num_words": [150, 160], "num_positions": [128, 64],
        "num_unknown": 1, "new": ["head"], "dropped": ["pooler.weight"],
    },
    "comparison": {
        "rows": {"final_rows": 13, "max_length": 64}, "figures": {"one_segment_loss": 4.5},
        "cost": {"parameters": 4000, "minutes": 0.5}, "memory_bytes": 300_000_000,
        "sentences": ["the [MASK]"], "guesses": [[{"token": "sea", "percent": 50.0}]],
    },
    "summary": SUMMARY,
}  # fmt: skip
GPT = {
    "settings": {"corpus": "corpus"},
    "data": PRETRAINING["data"],
    "config": {"system": "gpt", "model": {"n_layer": 2, "n_embd": 128}},
    "summary": SUMMARY,
}
FINE_TUNING = {
    "settings": {"train": "train.csv", "eval": "dev.csv", "head": "transformer", "model": "bert"},
    "config": {"model": {"num_hidden_layers": 2, "hidden_size": 128}, "task": "classify"},
    "summary": SUMMARY,
    "result": {
        "task": "classify", "target": "with 2 labels", "labels": ["a", "b"], "num_train": 30,
        "num_train_windowed": 0, "num_train_truncated": 1, "num_train_skipped": 2, "num_overlap": 3,
        "notes": ["one label is rare"], "start_note": "", "best_score": 0.5,
        "evaluation": {"accuracy": 0.5, "macro_f1": 0.25, "num_texts": 10, "num_skipped": 0},
        "baselines": [{"key": "majority", "answer": "a", "scores": {"accuracy": 0.5}}],
    },
}  # fmt: skip
RUNS = {"pre-training": PRETRAINING, "GPT": GPT, "fine-tuning": FINE_TUNING}


def changes(value, place=()):
    """Yield each place in a JSON value, as its keys."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, inner in items:
        yield (*place, key)
        if isinstance(inner, dict | list):
            yield from changes(inner, (*place, key))


def changed_runs(run):
    """Yield copies of the content of a run.json: one fact has another type, or is missing."""
    for *outer, last in changes(run):
        for value in (..., *ODD_VALUES):
            copied = inner = copy.deepcopy(run)
            for key in outer:
                inner = inner[key]
            if value is ...:
                del inner[last]
            else:
                inner[last] = value
            yield (*outer, last), value, copied


def journal():
    for step in range(1, 121):
        yield {"step": step, "mlm_loss": 5 / step, "gradient_norm": 0.5, "learning_rate": 1e-4}
    yield {"step": 120, "held_out_mlm_loss": 2.0, "held_out_nsp_accuracy": 0.8}


def read_everything(folder):
    """Do with a folder's run.json what commands do."""
    run = RunFolder(folder).read_run()
    entries = list(journal())
    diagnose(entries, run)
    build_charts(entries, run)
    model_card(folder, run, "mine")
    check_same(folder, run["config"], run["config"])
    names = ("steps", "elapsed_seconds", "real_tokens", "tokens_per_second", "data_wait_fraction")
    facts = {name: run["summary"][name] for name in (*names, "last_step", "held_out")}
    json.dumps(flat_summary(Summary(**facts)))
    objective_scores(run["summary"]["held_out"])
    if "evaluations" in run["config"]:
        EvaluationPlan.restore(run["config"]["evaluations"])
    list(describe_start(run.get("source")))
    if "comparison" in run:
        stored = run["comparison"]
        _format_scores(stored["figures"])
        assert all(value / 2 is not None for value in stored["cost"].values())
        [GapGuess(**guess) for row in stored.get("guesses", ()) for guess in row]
        _ = f"{stored['rows']['final_rows']:,} {stored['rows']['max_length']:,}"
    if "result" in run:
        results = (run["result"], run["result"])
        figures = spreads([result["evaluation"] for result in results])
        str(SeriesResult(folder, "seed", ("a", "b"), "a", "accuracy", figures, results))


@pytest.mark.parametrize("kind", RUNS)
def test_whatever_is_changed_there_is_one_clear_error_or_none(tmp_path, kind):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "run.json").write_text(json.dumps(RUNS[kind]))
    read_everything(tmp_path)
    num_refused = num_read = 0
    crashes = []
    for place, value, run in changed_runs(RUNS[kind]):
        (tmp_path / "run.json").write_text(json.dumps(run))
        try:
            read_everything(tmp_path)
            num_read += 1
        except (CheckpointError, ConfigError) as error:  # the latter for NaN, which equals nothing
            assert str(error).startswith(str(tmp_path)) and "\n" not in str(error)
            num_refused += 1
        except Exception as error:
            crashes.append(f"{place} is {value!r}: {type(error).__name__}: {error}")
    assert crashes == []
    assert num_refused > 50 and num_read > 50


def test_a_fact_is_named_with_what_it_must_be(tmp_path):
    for run, parts in (
        ({"settings": {"head": 3}}, ("settings.head is 3", "a text or null")),
        ({"summary": {"steps": True}}, ("summary.steps is true", "a whole number")),
        ({"summary": {"held_out": {"held_out_mlm_loss": "4"}}}, ("held_out_mlm_loss is \"4\"",)),
        ({"source": {"num_words": [1]}}, ("source.num_words is [1]", "two whole numbers")),
        ({"comparison": {"guesses": [[{"token": "a"}]]}}, ("comparison.guesses is [[",)),
        ({"result": {"notes": [1]}}, ("result.notes is [1]", "a list of texts")),
    ):  # fmt: skip
        (tmp_path / "run.json").write_text(json.dumps(run))
        with refuses(CheckpointError, "run.json: damaged (", *parts):
            RunFolder(tmp_path).read_run()


def test_facts_that_may_be_null(tmp_path):
    run = {
        "settings": {"head": None},
        "result": {"labels": None, "evaluation": {"num_unanswered": None}},
        "glue": {"majority": None},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert RunFolder(tmp_path).read_run() == run
