"""Fine-tuning scores a linear head, too, so that a user of few labels sees what is better."""

import json
from dataclasses import replace

import pytest
from folders import contents
from review_settings import settings_on_reviews
from tiny_models import BAD, GOOD, write_csv

from bertsmith.errors import as_flags
from bertsmith.finetuning.head_choice import HeadChoice
from bertsmith.finetuning.linear_baseline import MAX_TEXTS, score_linear_head
from bertsmith.finetuning.linear_run import finetune_linear
from bertsmith.finetuning.run import finetune
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.text_classification import Classify


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Settings of one step that changes hardly anything, so that the linear head is better."""
    folder = tmp_path_factory.mktemp("linear-baseline")
    return settings_on_reviews(folder, 150, steps=1, learning_rate=1e-9)


@pytest.fixture
def settings(base, tmp_path):
    return replace(base, out=tmp_path / "out")


def linear_of(result):
    return next((each for each in result.baselines if each.key == "linear"), None)


def test_the_scores_are_those_of_a_run_with_the_linear_head(settings, tmp_path):
    model = contents(settings.model)
    result = finetune(Classify, settings, has_costly_baselines=True)
    baseline = linear_of(result)
    of_head = replace(settings, out=tmp_path / "linear").with_head("linear")
    own_run = finetune_linear(Classify, of_head)
    assert own_run.evaluation.accuracy > 0.9
    assert baseline.scores["accuracy"] == pytest.approx(own_run.evaluation.accuracy)
    assert baseline.scores["macro_f1"] == pytest.approx(own_run.evaluation.macro_f1)
    assert "baseline  a linear head on the same model: accuracy" in str(result)
    assert "--head linear" in as_flags(str(result)) and "--head auto" in as_flags(str(result))
    stored = json.loads((settings.out / "run.json").read_text())["result"]["baselines"]
    assert stored[-1]["key"] == "linear"
    assert stored[-1]["scores"] == pytest.approx(baseline.scores)
    assert contents(settings.model) == model


@pytest.mark.filterwarnings("error")
def test_unknown_words_are_no_reason_to_warn_again(settings, tmp_path):
    rows = [(f"{word} strange words", word) for word in (GOOD[0], BAD[0]) for _ in range(20)]
    strange = write_csv(tmp_path / "strange.csv", ("text", "label"), *rows)
    data = Classify.read(replace(settings, train=strange, eval=strange))
    (baseline,) = score_linear_head(settings, data, read_folder(settings.model))
    assert baseline.scores["accuracy"] == 1


def test_a_model_that_is_as_good_gets_no_advice(settings):
    result = finetune(Classify, settings, has_costly_baselines=True)
    assert "--head auto" in as_flags(str(result))
    chosen = replace(result, choice=HeadChoice("accuracy", (), "fine-tuned", reason="it is best"))
    assert "train with" not in str(chosen)  # `--head auto` has compared the heads
    equal = {"accuracy": result.evaluation.accuracy, "macro_f1": 1.0}
    result = replace(result, baselines=(replace(linear_of(result), scores=equal),))
    assert "a linear head on the same model" in str(result)
    assert "--head auto" not in as_flags(str(result))


def test_it_is_scored_only_if_costly_baselines_are(settings):
    assert linear_of(finetune(Classify, settings)) is None


def test_several_labels_for_a_text_have_the_scores_of_their_reports(settings, tmp_path):
    rows = [(f"{good} film {bad}", "good,bad") for good, bad in zip(GOOD, BAD, strict=False)] * 5
    rows += [(f"{word} story", "good") for word in GOOD] * 5
    several = replace(
        settings, train=write_csv(tmp_path / "several.csv", ("text", "label"), *rows),
        eval=write_csv(tmp_path / "eval.csv", ("text", "label"), *rows[:23]), multi_label=True,
    )  # fmt: skip
    result = finetune(Classify, several, has_costly_baselines=True)
    assert list(linear_of(result).scores) == ["micro_f1", "macro_f1", "subset_accuracy"]
    assert linear_of(result).scores["micro_f1"] > 0.9


def test_a_new_model_and_many_texts_have_no_such_baseline(settings):
    data, folder = Classify.read(settings), read_folder(settings.model)
    assert [each.key for each in score_linear_head(settings, data, folder)] == ["linear"]
    assert score_linear_head(replace(settings, from_scratch=True), data, folder) == ()
    many = [data.train[0]] * (MAX_TEXTS + 1)
    assert score_linear_head(settings, replace(data, train=many), folder) == ()
    assert score_linear_head(settings, replace(data, held_out=many), folder) == ()
    assert score_linear_head(settings, replace(data, held_out=[]), folder) == ()
