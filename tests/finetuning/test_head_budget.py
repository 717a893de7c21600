"""`finetune classify --head auto --minutes N`: heads for which there is no time are left out."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from review_settings import settings_on_reviews
from tiny_models import reviews, tiny_tokenizer, write_reviews
from tiny_runs import small_corpus

from bertsmith import TextClassifier
from bertsmith.errors import BertsmithError, ConfigError, Interrupted, as_flags
from bertsmith.finetuning import best_head, head_budget, head_comparison, series
from bertsmith.finetuning.best_head import finetune_best_head
from bertsmith.finetuning.folds import split
from bertsmith.finetuning.head_budget import BudgetWatch, HeadBudget, OverBudget
from bertsmith.finetuning.head_comparison import cross_validate_head
from bertsmith.finetuning.head_training import AVERAGE, settings_of_head, train_head
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.callback import Callback, Status

PLENTY = 1000.0
"""More minutes than any comparison of the tests takes."""


@pytest.fixture
def settings(tmp_path):
    """Settings of `--head auto` on 100 reviews."""
    return settings_on_reviews(tmp_path, 100, 20, head="auto", steps=2, minutes=PLENTY)


@pytest.fixture
def few_heads(monkeypatch):
    """Compare only two heads and the average, which is enough to see what a budget does."""
    monkeypatch.setattr(head_comparison, "COMPARED_HEADS", ("counts", "fine-tuned"))


@pytest.fixture
def last_head_wins(monkeypatch):
    """Choose the last head that was compared, whatever the scores."""
    monkeypatch.setattr(best_head, "choose_head", lambda scores: scores[-1])


def test_a_comparison_needs_time_for_all_folds_and_a_longer_last_training():
    budget = HeadBudget(minutes=10, num_folds=5)
    budget.check(training_seconds=90, num_trainings=5)  # (5 + 1.25) x 90 s are 9.4 minutes
    with pytest.raises(OverBudget) as raised:
        budget.check(training_seconds=100, num_trainings=5)
    assert raised.value.minutes == pytest.approx(6.25 * 100 / 60, abs=0.1)


def test_a_head_that_was_compared_may_be_the_one_that_is_trained():
    budget = HeadBudget(minutes=10, num_folds=5)
    budget.check(training_seconds=1, num_trainings=5)
    budget.note_training(seconds=480)  # 1.25 x 480 s are all of the 10 minutes
    with pytest.raises(OverBudget):
        budget.check(training_seconds=1, num_trainings=5)


def test_with_two_folds_the_last_training_has_twice_as_many_texts():
    budget = HeadBudget(minutes=10, num_folds=2)
    budget.check(training_seconds=140, num_trainings=2)  # (2 + 2) x 140 s are 9.3 minutes
    with pytest.raises(OverBudget):
        budget.check(training_seconds=160, num_trainings=2)


def test_no_budget_allows_everything():
    HeadBudget(minutes=None, num_folds=5).check(training_seconds=1e9, num_trainings=5)


def test_a_first_training_is_ended_by_its_progress():
    def status(progress, seconds):
        return Status(progress, seconds, data_wait_fraction=0.0)

    watch = BudgetWatch(HeadBudget(minutes=10, num_folds=5), num_trainings=5, num_models=1)
    watch.on_step({}, status(0.001, 0.5))  # too early to tell
    watch.on_step({}, status(0.5, 40.0))  # 80 s each: 8.3 minutes
    with pytest.raises(OverBudget) as raised:
        watch.on_step({}, status(0.1, 20.0))  # 200 s each
    assert raised.value.minutes == pytest.approx(6.25 * 200 / 60, abs=0.1)


def test_a_training_of_three_models_takes_three_times_as_long():
    watch = BudgetWatch(HeadBudget(minutes=10, num_folds=5), num_trainings=5, num_models=3)
    with pytest.raises(OverBudget) as raised:
        watch.on_step({}, Status(0.5, 40.0, 0.0))
    assert raised.value.minutes == pytest.approx(6.25 * 240 / 60, abs=0.1)


def test_nothing_else_is_trained_for_an_average_without_time(settings, monkeypatch):
    def fit_no_linear_head(*arguments, **options):
        raise AssertionError("a linear head was fitted")

    monkeypatch.setattr(head_budget, "SECONDS_TO_JUDGE", 0.0)
    monkeypatch.setattr(series, "fit_linear_member", fit_no_linear_head)
    words = [" . ".join(each.text for each in reviews(6, seed=seed)) for seed in range(20)]
    corpus = small_corpus(settings.out.parent / "corpus", tiny_tokenizer(), words)
    data = Classify.read(settings)
    folds = split(replace(data, held_out=[]), 5, settings.seed)
    num_done = []
    with pytest.raises(OverBudget):
        cross_validate_head(
            Classify,
            replace(settings, corpus=corpus),
            AVERAGE,
            folds,
            num_done.append,
            budget=HeadBudget(minutes=1e-6, num_folds=5),
        )
    assert num_done == [5]


def test_an_average_that_begins_at_random_has_no_part_of_a_corpus(
    settings, few_heads, last_head_wins
):
    words = [" . ".join(each.text for each in reviews(6, seed=seed)) for seed in range(20)]
    corpus = small_corpus(settings.out.parent / "corpus", tiny_tokenizer(), words)
    result = finetune_best_head(Classify, replace(settings, corpus=corpus, from_scratch=True))
    assert "corpus" in result.choice.unused
    assert "\naverage was chosen" in str(result)
    assert "average + corpus" not in str(result)


def test_with_time_the_average_is_compared_too(settings, few_heads):
    choice = finetune_best_head(Classify, settings).choice
    assert [each.head for each in choice.heads] == ["counts", "fine-tuned", AVERAGE]
    assert choice.left_out == ()
    sizes = {each.head: each.megabytes for each in choice.heads}
    assert sizes[AVERAGE] == pytest.approx(3 * sizes["fine-tuned"], rel=0.01)


def test_without_time_only_the_first_head_is_compared(settings):
    result = finetune_best_head(Classify, replace(settings, minutes=1e-6))
    choice = result.choice
    assert [each.head for each in choice.heads] == ["counts"]
    left_out = [each.head for each in choice.left_out]
    assert left_out == ["linear", "contrastive", "fine-tuned", AVERAGE]
    assert choice.chosen == "counts" and choice.unused == ("steps",)
    shown = as_flags(str(result))
    assert "fine-tuned was left out: with it, the run would take about 0." in shown
    assert "minutes, and --minutes is 1e-06" in shown
    stored = json.loads((settings.out / "run.json").read_text())["result"]["choice"]
    assert [each["head"] for each in stored["left_out"]] == left_out


def test_the_average_is_scored_by_the_mean_of_the_probabilities(settings, tmp_path):
    data = Classify.read(replace(settings, eval=settings.train), (settings.train, None))
    fold = split(data, 5, settings.seed)[0]
    (trial,) = cross_validate_head(Classify, settings, AVERAGE, [fold], lambda amount: None)
    probabilities = []
    for seed in range(3):
        one = replace(settings.with_head("fine-tuned"), out=tmp_path / f"{seed}", seed=seed)
        finetune(Classify, one, dataset=replace(fold, held_out=[]))
        predictor = load(one.out, device="cpu", precision="fp32")
        probabilities.append(predictor.probabilities(fold.held_out))
    answers = np.mean(probabilities, axis=0).argmax(axis=1)
    assert trial.score == np.mean(answers == fold.task.targets(fold.held_out))


def test_the_chosen_average_is_one_model(settings, few_heads, last_head_wins):
    result = finetune_best_head(Classify, settings)
    assert result.choice.chosen == AVERAGE
    lines = str(result).splitlines()
    assert lines[0].startswith("head")
    assert "average was chosen, by cross-validation with 5 folds" in lines
    assert result.average["accuracy"] == (
        load(settings.out, device="cpu", precision="fp32").evaluate(str(settings.eval)).accuracy
    )
    stored = json.loads((settings.out / "run.json").read_text())["summary"]
    assert stored["choice"]["chosen"] == AVERAGE
    card = (settings.out / "README.md").read_text()
    assert "the mean of the probabilities of all models in this folder" in card


def test_the_estimator_may_choose_the_average(settings, few_heads, last_head_wins, capsys):
    texts = ["a good film", "fine story", "lovely", "bad film", "dull story", "awful"] * 20
    labels = (["pos"] * 3 + ["neg"] * 3) * 20
    classifier = TextClassifier(
        settings.model, head="auto", minutes=PLENTY, steps=1, precision="fp32", verbose=1
    )
    classifier.fit(texts, labels)
    assert classifier.result_.choice.chosen == AVERAGE
    assert classifier.result_.average == {}  # nothing was held out
    probabilities = classifier.predict_proba(["a good film"])
    assert probabilities.shape == (1, 2) and probabilities.sum() == pytest.approx(1)
    shown = "".join(capsys.readouterr())
    assert "average   <- kept" in shown and "mean ± standard deviation" not in shown


class StopInSecondModel(Callback):
    """Asks to stop when the second model of an average has begun."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def on_step(self, entry, status):
        if (self.out / "runs" / "seed-1").exists():
            raise Interrupted("stopped by the test")
        return


def test_a_stopped_average_is_resumed(settings, few_heads, last_head_wins, tmp_path):
    with pytest.raises(Interrupted):
        finetune_best_head(Classify, settings, [StopInSecondModel(settings.out)])
    result = finetune_best_head(Classify, replace(settings, resume=True))
    assert result.choice is None and len(result.names) == 3
    whole = replace(settings_of_head(settings, AVERAGE), out=tmp_path / "whole")
    data = Classify.read(settings)
    assert train_head(Classify, whole, data).average == result.average


@pytest.mark.parametrize(
    ("options", "error"),
    [({"head": "fine-tuned"}, ConfigError), ({"minutes": 0.0}, BertsmithError)],
)
def test_a_budget_without_use_is_refused(settings, options, error):
    with refuses(error):
        replace(settings, **options)


def test_a_few_texts_are_not_compared_so_the_budget_has_no_effect(settings, tmp_path):
    train = write_reviews(tmp_path / "few.csv", 32)
    choice = finetune_best_head(Classify, replace(settings, train=train)).choice
    assert choice.heads == () and choice.unused == ("steps", "minutes")
