"""Plain methods beside a model's scores: fitted to training examples, scored on eval examples."""

import re

import numpy as np
import pytest
from tiny_models import save_tiny

from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.squad import GoldAnswer, Question
from bertsmith.data.tagged import TaggedSentence
from bertsmith.evaluation.stored_majority import StoredMajority
from bertsmith.finetuning.scoring import scores_before
from bertsmith.system.compute import InferenceCompute
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.multiple_choice import Choose
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.tfidf import MAX_TRAIN_CHARS, WORD, score_tfidf
from bertsmith.tasks.token_classification import Tag

CLASSIFY = Classify(("0", "1"))
SEVERAL = MultiLabel(("bad", "film", "good"))
TRAIN = [Example("good film", label="1")] * 3 + [Example("bad film", label="0")] * 2
EVAL = [Example("good", label="1"), Example("bad", label="0"), Example("bad", label="0")]
SETS = [Example("good film", label="good,film")] * 3 + [Example("bad day", label="bad")] * 2
COMPUTE = InferenceCompute(device="cpu", precision="fp32")


def cheap(task, train, held_out, before=None):
    return task.baselines.score_cheap(task, train, held_out, before or {})


def only(baselines):
    (baseline,) = baselines
    return baseline


def test_the_majority_class_is_that_of_training():
    baseline = only(cheap(CLASSIFY, TRAIN, EVAL))
    assert (baseline.key, baseline.answer) == ("majority", "1")
    assert baseline.scores == {"accuracy": pytest.approx(1 / 3), "macro_f1": pytest.approx(0.25)}
    assert str(baseline) == "baseline  always '1': accuracy 0.3333, macro-F1 0.2500"
    never = CLASSIFY.baselines.score_constant(CLASSIFY, "never", {"a": 1})
    assert never.scores == {"accuracy": 0.0, "macro_f1": 0.0}


def test_several_labels_have_a_usual_set():
    held_out = [Example("a", label="film,good"), Example("b", label="bad,film"), Example("c")]
    baseline = only(cheap(SEVERAL, SETS, held_out))
    assert baseline.method == "always 'film', 'good'"
    assert baseline.scores["subset_accuracy"] == pytest.approx(1 / 3)
    assert baseline.scores["micro_f1"] == pytest.approx(2 * 3 / (6 + 4))
    without = only(cheap(SEVERAL, [Example("a")] * 4 + SETS, held_out))
    assert (without.method, without.scores["micro_f1"]) == ("always no label", 0.0)


def test_tfidf_is_fitted_to_training_alone():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    baseline = score_tfidf(TRAIN, EVAL)
    assert baseline.scores["accuracy"] == 1.0
    unknown = [Example("unseen", label="2")]
    assert score_tfidf(TRAIN, unknown).scores["accuracy"] == 0.0
    assert score_tfidf(TRAIN[:3], EVAL) is None  # one class
    assert score_tfidf([Example("a", "b", "1"), Example("c", "d", "0")], EVAL) is None
    assert score_tfidf([Example("!", label="1"), Example("?", label="0")], EVAL) is None
    long = [Example(f"{'good' if i % 2 else 'bad'} " * 20_000, label=str(i % 2)) for i in range(40)]
    assert sum(len(example.text) for example in long) > MAX_TRAIN_CHARS
    assert "of the 40 texts" in score_tfidf(long, EVAL).method


def test_tfidf_counts_chinese_characters():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    train = [Example(f"{start}很{word}", label=str(word == "好")) for word in "好坏" for start in
             ("这家酒店", "房间", "早餐也", "服务")]  # fmt: skip
    others = [Example("电池不太好", label="True"), Example("屏幕坏了", label="False")]
    assert score_tfidf(train, others).scores["accuracy"] == 1.0
    text = "It's a naïve 3D film_2 of 1999, isn't it? Один\u00adдва"
    assert re.findall(WORD, text) == re.findall(r"\b\w\w+\b", text)  # as by default
    assert re.findall(WORD, "看BERT的3D电影") == ["看", "BERT", "的", "3D", "电", "影"]


def test_tfidf_decides_on_each_of_several_labels():
    pytest.importorskip("sklearn", reason="needs scikit-learn")

    def costly(train):
        return SEVERAL.baselines.score_costly(SEVERAL, train, held_out, None, COMPUTE)

    held_out = [Example("good", label="film,good"), Example("bad", label="bad")]
    assert only(costly(SETS)).scores == {"micro_f1": 1.0, "macro_f1": 1.0, "subset_accuracy": 1.0}
    always = [Example(one.text, label=f"{one.label},film") for one in SETS]  # nothing to learn
    assert only(costly(always)).scores["subset_accuracy"] == 0.5
    size = MAX_TRAIN_CHARS // 20
    long = [Example(f"{one.text} " * (size // 9), label=one.label) for one in SETS * 8]
    drawn = only(costly(long))
    assert "for each label (of " in drawn.method and drawn.scores["subset_accuracy"] == 1.0
    assert costly([Example("a", "b", "good"), Example("c", "d", "bad")]) == []


def test_each_word_has_its_usual_label():
    train = [
        TaggedSentence(("Ada", "met", "Bob"), ("B-PER", "O", "B-PER"), scheme="IOB2"),
        TaggedSentence(("Ada", "ran"), ("B-PER", "O"), scheme="IOB2"),
    ]
    held_out = [TaggedSentence(("Bob", "saw", "Eve"), ("B-PER", "O", "B-PER"), scheme="IOB2")]
    scores = only(cheap(Tag(), train, held_out)).scores
    assert scores["accuracy"] == pytest.approx(2 / 3)  # unknown words have the most frequent one
    assert scores["f1"] == pytest.approx(0.8)


def test_a_choice_is_that_of_the_usual_place():
    rows = [ChoiceExample("a", ("b", "c"), label) for label in (1, 1, 0)]
    baseline = only(cheap(Choose(), rows, rows[1:]))
    assert (baseline.method, baseline.scores) == ("always choice number 2", {"accuracy": 0.5})


def test_a_number_is_the_mean_of_training():
    train, held_out = ([Example("a", label=label) for label in each] for each in ("13", "15"))
    baseline = only(cheap(Regress(), train, held_out))
    assert baseline.scores == {"rmse": pytest.approx(np.sqrt((1 + 9) / 2))}
    assert "always 2.0000" in baseline.method


def question(passage, *answers):
    gold = tuple(GoldAnswer(answer, passage.index(answer)) for answer in answers)
    return Question("q", "Who?", passage, gold)


def test_an_answer_is_the_start_of_the_passage_or_none():
    train = [question("A dog and a cat ran.", "A dog", "cat ran"), question("Ada flew.", "Ada")]
    held_out = [question("Ada Byron flew.", "Ada Byron"), question("The sea.", "sea")]
    baseline = only(cheap(Answer(), train, held_out))
    assert baseline.method == "the first word of each passage"
    assert baseline.scores == {"exact_match": 0.0, "f1": pytest.approx(100 * (2 / 3) / 2)}
    start, nothing = cheap(Answer(), train, [*held_out, question("No."), question("None.")])
    assert start.scores["f1"] == pytest.approx(100 * (2 / 3) / 4)
    assert (nothing.method, nothing.scores["exact_match"]) == ("never an answer", 50.0)
    chinese = [question("李明昨天来了", "李明")]
    baseline = only(cheap(Answer(language="zh"), chinese, chinese))
    assert baseline.method == "the first 2 characters of each passage"
    assert baseline.scores["exact_match"] == 100.0


def test_vectors_are_scored_before_training():
    first = {"step": 0, "held_out_embed_spearman": 0.5, "held_out_embed_loss": 1.0}
    rows, task = [Example("a", "b", "1")], Embed()
    assert only(cheap(task, rows, rows, scores_before("embed", first))).scores == {"spearman": 0.5}
    assert cheap(task, rows, rows, scores_before("embed", {**first, "step": 3})) == []


@pytest.mark.filterwarnings("error")
def test_unknown_words_of_pairs_are_no_reason_to_warn_again(tmp_path):
    task, model = Regress(), save_tiny(tmp_path / "model", "masked_lm")
    rows = [Example("strange words", other, str(len(other))) for other in ("unknown", "ones")]
    assert only(task.baselines.score_costly(task, rows, rows, model, COMPUTE)).key == "cosine"


def test_pairs_have_the_cosine_of_the_model_before(tmp_path):
    def costly(train, held_out, model):
        return task.baselines.score_costly(task, train, held_out, model, COMPUTE)

    task, model = Regress(), save_tiny(tmp_path / "model", "masked_lm")
    texts = ("good film", "bad film", "a lovely day")
    rows = [
        Example(first, second, str(float(first == second))) for first in texts for second in texts
    ]
    baseline = only(costly(rows, rows, model))
    assert baseline.key == "cosine"
    assert baseline.scores["pearson"] > 0.5  # equal texts have the cosine 1
    assert costly(rows, rows, tmp_path / "none") == []
    single = [Example("a", label="1")]
    assert costly(single, single, model) == []


@pytest.mark.parametrize("task, train, held_out", [
    (CLASSIFY, TRAIN, EVAL), (SEVERAL, SETS, SETS[2:]),
    (Choose(), *2 * [[ChoiceExample("a", ("b", "c"), 1)]]),
])  # fmt: skip
def test_an_evaluation_knows_the_usual_answer_of_training(task, train, held_out):
    of_training = only(cheap(task, train, held_out))
    stored = {"key": of_training.key, "answer": of_training.answer}
    majority = StoredMajority(task, {"result": {"baselines": [stored]}})
    assert majority.baselines() == []
    for example in held_out:
        majority.add([example], [])
    assert only(majority.baselines()) == of_training
    for baselines in ([{"key": "tfidf"}, 3], 3, "majority"):
        assert StoredMajority(task, {"result": {"baselines": baselines}}).answer is None
    for other in ({}, {"result": None}):
        unknown = StoredMajority(task, other)
        unknown.add(held_out, [])
        assert unknown.baselines() == []


@pytest.mark.parametrize("task, answer", [
    (SEVERAL, "b"), (SEVERAL, '"b"'), (SEVERAL, '["a", 1]'), (SEVERAL, '{"a": 1}'),
    (Choose(), "the first"), (Choose(), "-1"),
])  # fmt: skip
def test_a_stored_answer_of_another_form_is_left_out(task, answer):
    baselines = [{"key": "majority", "answer": answer}]
    assert StoredMajority(task, {"result": {"baselines": baselines}}).answer is None
