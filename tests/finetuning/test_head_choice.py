"""`finetune classify --head auto`: the head that is best in cross-validation is trained."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from review_settings import settings_on_reviews
from tiny_models import BAD, GOOD, OTHER, save_tiny, write_csv, write_reviews

from bertsmith import TextClassifier
from bertsmith.errors import ConfigError, TrainingError, as_flags
from bertsmith.finetuning import best_head, head_comparison
from bertsmith.finetuning.best_head import choose_head, finetune_best_head
from bertsmith.finetuning.contrastive_run import finetune_contrastive
from bertsmith.finetuning.head_choice import HeadScore
from bertsmith.finetuning.head_comparison import COMPARED_HEADS, cross_validate_head
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.settings.tag import TagSettings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.token_classification import Tag


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Settings of a run on a few reviews, whose fine-tuning is too short to learn anything."""
    folder = tmp_path_factory.mktemp("heads")
    return settings_on_reviews(folder, 100, 20, head="auto", steps=1, learning_rate=1e-6)


@pytest.fixture
def settings(base, tmp_path):
    return replace(base, out=tmp_path / "out")


@pytest.fixture(scope="module")
def whole(base):
    return finetune_best_head(Classify, base)


def test_the_head_with_the_best_mean_is_trained(base, whole):
    choice = whole.choice
    assert [each.head for each in choice.heads] == list(COMPARED_HEADS)
    assert all(len(each.scores) == 5 for each in choice.heads)
    assert choice.chosen == choose_head(choice.heads).head
    means = {each.head: each.mean for each in choice.heads}
    assert means["fine-tuned"] < means["linear"]
    stored = json.loads((base.out / "run.json").read_text())["result"]["choice"]
    assert stored["chosen"] == choice.chosen and len(stored["heads"]) == len(COMPARED_HEADS)
    assert f"{choice.chosen} was chosen" in str(whole)
    assert "seconds to train  texts/s" in str(whole)
    encoder_size = (base.model / "model.safetensors").stat().st_size / 1e6
    for each in choice.heads:
        assert 0.5 * encoder_size < each.megabytes < 2 * encoder_size, each
        assert each.texts_per_second > 0 and each.seconds > 0
    assert load(base.out, device="cpu", precision="fp32").evaluate(str(base.eval)).accuracy == (
        whole.evaluation.accuracy
    )


def test_the_best_mean_wins_and_of_equal_ones_the_fastest():
    def scores(*values):
        return [
            HeadScore(str(number), each, seconds=1.0, texts_per_second=1.0, megabytes=1.0)
            for number, each in enumerate(values)
        ]

    assert choose_head(scores((0.5, 0.6), (0.7, 0.8), (0.6, 0.7))).head == "1"
    # The second leads by 0.05 on average, though not on every fold.
    assert choose_head(scores((0.7, 0.8), (0.5, 1.1))).head == "1"
    assert choose_head(scores((0.5, 0.5), (0.4, 0.6))).head == "0"


def test_eval_examples_have_no_part_in_the_choice(settings, whole, tmp_path):
    """Eval labels that are all wrong give the same scores of the heads, and the same head."""
    wrong = tmp_path / "wrong.csv"
    swapped = settings.eval.read_text().replace(",pos", ",x").replace(",neg", ",pos")
    wrong.write_text(swapped.replace(",x", ",neg"))
    result = finetune_best_head(Classify, replace(settings, eval=wrong))
    assert [each.scores for each in result.choice.heads] == [
        each.scores for each in whole.choice.heads
    ]
    assert result.choice.chosen == whole.choice.chosen
    assert result.evaluation.accuracy == pytest.approx(1 - whole.evaluation.accuracy)


def test_the_metric_may_be_the_accuracy_of_several_labels(settings, tmp_path, monkeypatch):
    """Reports call this accuracy subset_accuracy."""
    monkeypatch.setattr(head_comparison, "COMPARED_HEADS", ("linear",))
    monkeypatch.setattr(best_head, "MANY_TO_COMPARE", 10)
    rows = []
    for noun in ("film", "story"):
        rows += [(f"a {word} {noun}", "good") for word in GOOD]
        rows += [(f"the very {word} {noun}", "good,fine") for word in GOOD]
        rows += [(f"a {word} {noun}", "bad") for word in BAD]
    train = write_csv(tmp_path / "several.csv", ("text", "label"), *rows)
    several = replace(settings, train=train, eval=Path(), multi_label=True, metric="accuracy")
    choice = finetune_best_head(Classify, several).choice
    assert (choice.metric, choice.chosen) == ("accuracy", "linear")
    assert "metric" not in choice.unused  # it compared the heads
    assert all(0 <= score <= 1 for score in choice.heads[0].scores)


class Stopping(Classify):
    """Its first loss comes with Ctrl-C."""

    def compute_loss(self, outputs, batch):
        os.kill(os.getpid(), signal.SIGINT)
        return super().compute_loss(outputs, batch)


class Infinite(Classify):
    """Its loss is NaN."""

    def compute_loss(self, outputs, batch):
        return super().compute_loss(outputs * float("nan"), batch)


@pytest.mark.parametrize(("task", "error"), [
    (Stopping, KeyboardInterrupt), (Infinite, TrainingError)
])  # fmt: skip
def test_no_message_names_the_removed_folder_of_a_comparison(settings, monkeypatch, task, error):
    monkeypatch.setattr(head_comparison, "COMPARED_HEADS", ("fine-tuned",))
    with pytest.raises(error) as caught:
        finetune_best_head(task, replace(settings, steps=3))
    assert "bertsmith-" not in str(caught.value)
    assert not settings.out.exists()


@pytest.mark.filterwarnings("error")
def test_no_warning_names_the_removed_folder_of_a_comparison(settings, tmp_path):
    """Nor is each fold a reason to warn again of words that the vocabulary lacks."""
    rows = [(f"{word} strange words", word) for word in (GOOD[0], BAD[0]) for _ in range(20)]
    train = write_csv(tmp_path / "strange.csv", ("text", "label"), *rows)
    strange = replace(settings, train=train, eval=Path())
    fold = replace(Classify.read(strange), held_out=Classify.read(strange).train)
    (trial,) = cross_validate_head(Classify, strange, "counts", [fold], lambda amount: None)
    assert trial.score == 1


def test_without_eval_examples_the_chosen_head_learns_from_all_examples(settings):
    result = finetune_best_head(Classify, replace(settings, eval=Path()))
    assert result.evaluation is None and result.num_train == 100
    assert load(settings.out, device="cpu")("a good film").label == "pos"


def test_options_of_a_training_are_those_of_fine_tuning_alone(base):
    tuned = base.with_head("fine-tuned")
    assert (tuned.steps, tuned.learning_rate, tuned.head) == (1, 1e-6, "fine-tuned")
    linear = base.with_head("linear")
    assert (linear.steps, linear.learning_rate, linear.head) == (None, None, "linear")


def test_the_estimator_chooses_a_head(base):
    texts = ["a good film", "fine story", "lovely", "bad film", "dull story", "awful"] * 2
    classifier = TextClassifier(base.model, head="auto", steps=1, precision="fp32", verbose=0)
    classifier.fit(texts, ["pos"] * 3 + ["neg"] * 3 + ["pos"] * 3 + ["neg"] * 3)
    assert classifier.result_.choice.chosen == "linear"
    assert classifier.predict(["good"]).tolist() == ["pos"]


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize(
    ("is_sentence_encoder", "head"), [(True, "contrastive"), (False, "linear")]
)
def test_with_few_examples_the_kind_of_model_decides(settings, tmp_path, is_sentence_encoder, head):
    model = save_tiny(tmp_path / "model")
    if is_sentence_encoder:
        SentenceFolder("mean").write(model, 24)
    train = write_reviews(tmp_path / "few.csv", 32)
    few = replace(settings, model=model, train=train)
    result = finetune_best_head(Classify, few)
    assert result.choice.chosen == head and result.choice.heads == ()
    kind = "a sentence encoder" if is_sentence_encoder else "no sentence encoder"
    first = str(result).splitlines()[0]
    assert first.startswith(f"{head} was chosen, since fewer than 100 texts are too few")
    assert first.endswith(f"the model is {kind}")
    assert result.choice.unused == (("steps", "learning_rate") if head == "linear" else ())
    assert (result.calibration is not None) == is_sentence_encoder
    assert ("calibrated by cross-validation with 5 folds" in str(result)) == is_sentence_encoder
    told = "linear has no use for --steps, --learning-rate" in as_flags(str(result))
    assert told == (head == "linear")
    assert load(settings.out, device="cpu")("a good film").label in ("pos", "neg")


def test_the_saved_contrastive_head_is_the_calibrated_one(settings, tmp_path):
    model = save_tiny(tmp_path / "model")
    SentenceFolder("mean").write(model, 24)
    few = replace(settings, model=model, train=write_reviews(tmp_path / "few.csv", 32))
    calibration = finetune_best_head(Classify, few).calibration
    assert calibration.scale != 1
    alone = replace(few.with_head("contrastive"), out=tmp_path / "alone")
    finetune_contrastive(Classify, alone)
    texts = ["a good film", "the awful story", "film"]
    calibrated, uncalibrated = (
        load(folder, device="cpu", precision="fp32").probabilities(texts)
        for folder in (few.out, alone.out)
    )
    weights = uncalibrated**calibration.scale * np.exp(calibration.biases)
    assert calibrated == pytest.approx(weights / weights.sum(1, keepdims=True), abs=1e-5)


@pytest.mark.same_on_all_computers
def test_a_stopped_run_keeps_the_head_that_it_began_with(settings, tmp_path):
    model = save_tiny(tmp_path / "model")
    SentenceFolder("mean").write(model, 24)
    few = replace(settings, model=model, train=write_reviews(tmp_path / "few.csv", 32))
    whole = finetune_best_head(Classify, few)
    facts = json.loads((settings.out / "run.json").read_text())
    del facts["result"]
    (settings.out / "run.json").write_text(json.dumps(facts))
    resumed = finetune_best_head(Classify, replace(few, resume=True))
    assert resumed.evaluation == whole.evaluation and resumed.choice is None
    assert resumed.calibration == whole.calibration
    facts["settings"]["head"] = "linear"
    (settings.out / "run.json").write_text(json.dumps(facts))
    with refuses(ConfigError, "not resumed", "--overwrite"):
        finetune_best_head(Classify, replace(few, resume=True))


def test_a_stopped_run_of_another_task_is_told(settings):
    words = settings.out.parent / "words.conll"
    words.write_text("good O\nfilm B-X\n\nbad O\nstory B-X\n\n")
    tagged = TagSettings(
        model=settings.model, train=words, eval=words, out=settings.out, steps=1, threads=1,
        precision="fp32",
    )  # fmt: skip
    finetune(Tag, tagged)
    facts = json.loads((settings.out / "run.json").read_text())
    del facts["result"]
    (settings.out / "run.json").write_text(json.dumps(facts))
    with refuses(ConfigError, "'finetune tag'", "'finetune classify'", "--out"):
        finetune_best_head(Classify, replace(settings, resume=True))


def test_too_few_examples_and_options_of_a_series_are_refused(settings, tmp_path):
    same = write_csv(tmp_path / "same.csv", ("text", "label"), ("film", "pos"), ("film", "neg"))
    with refuses(ConfigError, "--head auto", "two different examples"):
        finetune_best_head(Classify, replace(settings, train=same))
    with refuses(ConfigError, "--head auto", "--seeds"):
        replace(settings, seeds=2)


@pytest.mark.parametrize(
    "labels", ["ab", "aab", "aaabc", "a" * 20 + "b" * 11, "a" * 16 + "b" * 16 + "c"]
)
def test_a_handful_of_texts_or_a_label_that_occurs_once_is_not_calibrated(
    settings, tmp_path, labels
):
    """If a label occurs once, some fold would have to be learned without it."""
    model = save_tiny(tmp_path / "model")
    SentenceFolder("mean").write(model, 24)
    words = [*GOOD, *BAD, *OTHER]
    rows = [
        (f"{words[number % len(words)]} {words[number // len(words)]}", label)
        for number, label in enumerate(labels)
    ]
    train = write_csv(tmp_path / "texts.csv", ("text", "label"), *rows)
    result = finetune_best_head(Classify, replace(settings, model=model, train=train, eval=Path()))
    assert result.choice.chosen == "contrastive" and result.calibration is None
    assert load(settings.out, device="cpu")("good film").label in set(labels)


def test_texts_with_several_labels_are_not_calibrated(settings, tmp_path):
    model = save_tiny(tmp_path / "model")
    SentenceFolder("mean").write(model, 24)
    words = [(word, "good,fine") for word in GOOD] + [(word, "bad") for word in BAD]
    rows = [(f"{word} {other}", labels) for word, labels in words for other in OTHER]
    train = write_csv(tmp_path / "several.csv", ("text", "label"), *rows)
    several = replace(settings, model=model, train=train, eval=Path(), multi_label=True)
    result = finetune_best_head(Classify, several)
    assert result.choice.chosen == "contrastive" and result.calibration is None
