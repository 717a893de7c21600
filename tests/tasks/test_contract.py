"""What every task must do, whatever it learns: batches, losses, folders, predictions."""

import json
import math
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from close_figures import close
from samples import SAMPLES, Sample, prepare
from tiny_models import (
    NUM_POSITIONS,
    load_for_task,
    loss_of,
    save_tiny,
    save_tiny_of,
    tiny_tokenizer,
)

from bertsmith.cli import COMMANDS
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.catalog import task_of_folder, tasks
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples
from bertsmith.tasks.task import Task, TaskDataset

PIPELINES = {
    "answer": "question-answering", "choose": "multiple-choice", "classify": "text-classification",
    "embed": "sentence-similarity", "regress": "text-classification", "tag": "token-classification",
}  # fmt: skip
FAMILIES = ["albert", "distilbert", "electra", "modernbert", "roberta"]


def test_every_task_is_tested_here_and_has_a_command():
    assert {name.split()[0] for name in SAMPLES} == set(tasks())
    others = {"finetune translate"}  # not a BERT's
    assert {name for name in COMMANDS if name.startswith("finetune ")} - others == {
        f"finetune {name}" for name in tasks()
    }


@dataclass(frozen=True)
class Case:
    """A task, bound to tiny data."""

    number: int
    sample: Sample
    type: type[Task[Any, Any]]
    settings: Any
    dataset: TaskDataset[Any]

    @property
    def task(self):
        return self.dataset.task

    def model(self, **changes):
        """Random weights, in evaluation mode."""
        folder = save_tiny(self.settings.out.parent / "start", **changes)
        return load_for_task(replace(self.settings, model=folder), self.dataset)[0].eval()

    def encode(self, examples=None):
        examples = self.dataset.train if examples is None else examples
        return self.task.encode(tiny_tokenizer(), examples, NUM_POSITIONS, labelled=True)

    def training(self):
        return training_examples(self.task, self.encode(), Path("a.csv"), self.dataset.train)

    def objective(self, **settings):
        held_out = HeldOutExamples(
            self.encode(self.dataset.held_out), Path("b.csv"), self.dataset.held_out
        )
        return FineTuning(self.task, self.training(), held_out, **settings)


@pytest.fixture(params=sorted(SAMPLES))
def case(request, tmp_path):
    task, settings = prepare(request.param, tmp_path, 23, 11)
    number = sorted(SAMPLES).index(request.param)
    return Case(number, SAMPLES[request.param], task, settings, task.read(settings))


def all_ids(batches):
    return [batch.input_ids.tolist() for batch in batches]


def test_batches_are_a_function_of_seed_and_step(case):
    first, other = (case.objective(seed=seed, batch_size=5) for seed in (3, 4))
    again = pickle.loads(pickle.dumps(first))  # as for another process
    for step in (5, 1, 2):
        assert all_ids(first.micro_batches(step)) == all_ids(again.micro_batches(step))
    assert all_ids(first.micro_batches(1)) != all_ids(other.micro_batches(1))
    assert first.identity() == again.identity()
    # An epoch takes everything once, and the next one in another order.
    steps = first.steps_per_epoch
    epochs = [[first.chosen(1 + begin + i) for i in range(steps)] for begin in (0, steps)]
    for epoch in epochs:
        assert sorted(i for chosen in epoch for i in chosen) == list(range(len(first.train)))
    assert epochs[0] != epochs[1]
    assert first.describe(1).startswith("a.csv: rows ")


def test_rows_of_an_example_stay_together_and_losses_have_the_counts_foretold(case):
    objective, model = case.objective(batch_size=12, micro_batch_tokens=60), case.model()
    for batch in objective.micro_batches(1):
        owners, places = batch.targets["example"].tolist(), batch.targets["row_index"].tolist()
        assert len(set(zip(owners, places, strict=True))) == batch.num_sequences
        assert sorted(set(owners)) == list(range(int(batch.targets["num_examples"])))
        for owner in set(owners):
            mine = [p for o, p in zip(owners, places, strict=True) if o == owner]
            assert sorted(mine) == list(range(len(mine)))
        terms = objective.losses(model, batch)
        assert {name: term.count for name, term in terms.items()} == objective.counts(batch)
        assert list(terms) == [case.task.name]
        assert all(0 <= term.correct <= term.count for term in terms.values())


def gradients(case, batches):
    """Of the loss of a whole step, whatever its micro-batches."""
    model = case.model()
    count = sum(case.task.num_predictions(batch) for batch in batches)
    for batch in batches:
        (loss_of(case.task, model, batch).sum / count).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_a_divided_step_has_the_gradients_of_a_whole_one(case):
    whole = case.objective(batch_size=12).micro_batches(1)
    divided = case.objective(batch_size=12, num_shares=3, micro_batch_tokens=20).micro_batches(1)
    assert (len(divided) > 3) == (case.task.group_size is None)
    assert len(whole) == 1
    torch.testing.assert_close(
        gradients(case, divided), gradients(case, whole), atol=1e-5, rtol=1e-4
    )


def test_order_company_and_portions_change_no_prediction_and_no_figure(case):
    model, examples = case.model(), list(case.dataset.held_out)
    whole = case.task.predict(model, case.encode(examples), examples)
    back = examples[::-1]
    reversed_ = case.task.predict(model, case.encode(back), back)[::-1]
    alone = [case.task.predict(model, case.encode([e]), [e])[0] for e in examples]
    for one, other, third in zip(whole, reversed_, alone, strict=True):
        assert one.answer == pytest.approx(other.answer, abs=1e-5)
        assert one.answer == pytest.approx(third.answer, abs=1e-5)
    together, portions = (case.task.accumulator(Path("b.csv")) for _ in range(2))
    together.add(examples, whole)
    for first in range(0, len(examples), 4):
        portions.add(examples[first : first + 4], whole[first : first + 4])
    assert portions.compute_metrics() == pytest.approx(together.compute_metrics())
    assert portions.result(3).to_json() == together.result(3).to_json()


def test_evaluation_has_a_loss_and_the_metric_and_leaves_the_mode(case):
    model = case.model().train()
    figures = case.objective().evaluate(model)
    assert model.training
    assert figures["held_out_loss"] == figures[f"held_out_{case.task.name}_loss"]
    assert math.isfinite(figures[f"held_out_{case.task.name}_{case.sample.figure}"])
    assert all(math.isfinite(value) for value in figures.values())


def test_parts_of_an_evaluation_give_the_figures_of_the_whole(case):
    """Parts are sent to other ranks, so they do without what only training needs."""
    model = case.model()
    objective = case.objective()
    evaluation = pickle.loads(pickle.dumps(objective.evaluation))
    results = [evaluation.evaluate_part(model, part, 3) for part in range(3)]
    assert sum(map(len, results)) == len(objective.held_out.examples) > 3
    assert evaluation.combine(results) == pytest.approx(
        objective.evaluate(model), abs=1e-5, rel=1e-5
    )


def test_a_folder_knows_its_task_here_and_in_transformers(case):
    folder, family = case.settings.out, FAMILIES[case.number % len(FAMILIES)]
    start = save_tiny_of(case.settings.out.parent / "start", family)
    model = load_for_task(replace(case.settings, model=start), case.dataset)[0].eval()
    with case.task.as_saved(model):
        save_model(model, folder, tiny_tokenizer())
    case.task.write_files(folder)
    assert task_of_folder(read_folder(folder)) is case.type
    predictor = load(folder, device="cpu", precision="fp32")
    assert predictor.definition == case.task
    assert predictor.task == PIPELINES[case.task.name]
    assert predictor.predict([]) == []
    examples = list(case.dataset.held_out)
    expected = case.task.predict(model, case.encode(examples), examples)
    for example, found, other in zip(examples, predictor.predict(examples), expected, strict=True):
        assert found.answer == pytest.approx(other.answer, abs=1e-5)
        # What is said of an example is plain JSON, and a line.
        row = {**example.to_json(), **found.to_json()}
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert row.get("line", row.get("row")) == example.row
        assert "\n" not in str(found.line(example))
        assert predictor.num_tokens(example) > 2
        outcome = case.task.outcome(example, found)
        assert outcome.text and outcome.gold and outcome.score <= 1
        assert outcome.confidence is None or 0 <= outcome.confidence <= 1
    theirs, report = getattr(transformers, case.sample.transformers).from_pretrained(
        folder, output_loading_info=True
    )
    assert not [key for key in report["missing_keys"] if "pooler" not in key]
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert read_folder(folder).settings["model_type"] == family
    assert [type(theirs).__name__] == read_folder(folder).settings["architectures"]


def test_finetuning_learns_and_evaluation_gives_the_same_scores(case, tmp_path):
    train = case.sample.write(tmp_path / case.sample.file, 120, 2)
    settings = replace(
        case.settings, model=save_tiny(tmp_path / "model", "masked_lm"), train=train,
        steps=90, learning_rate=5e-3, dropout=0.0,
    )  # fmt: skip
    result = finetune(case.type, settings)
    scores = result.evaluation.to_json()
    assert scores[case.sample.figure] > case.sample.min_score
    again = evaluate(load(settings.out, device="cpu", precision="fp32"), settings.eval)
    assert again.to_json() == close(scores)
    assert str(result.evaluation).splitlines()[0] in str(result)
    json.dumps(result.to_json())
