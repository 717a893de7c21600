"""Answers to questions: the best spans of all windows, and none where there is none."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from close_figures import close
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_peak import peak
from samples import write_questions
from tiny_models import OTHER, save_tiny, tiny_model, tiny_tokenizer
from tiny_tokenizers import TINY

from bertsmith.data.question_windows import (
    CLS_POSITION,
    begins_or_ends_inside_token,
    encode_questions,
    locate_tokens,
    offsets_of,
)
from bertsmith.data.squad import GoldAnswer as RightAnswer
from bertsmith.data.squad import Question, QuestionReader
from bertsmith.data.windowing import Windowing
from bertsmith.errors import as_flags
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.score import score_answer_files
from bertsmith.finetuning.run import finetune
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.answer_prediction import AnswerPrediction
from bertsmith.tasks.answer_search import NUM_CANDIDATES, SpanCandidates, best_answers
from bertsmith.tasks.auto import load
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.settings.answer import AnswerSettings

LONG = " ".join(["the film was a story and"] * 20)


@dataclass(frozen=True)
class Finder(Answer):
    """Likes the words "good" and "lovely"; [CLS] gets `null`."""

    null: float = -5.0

    def outputs(self, model, batch):
        tokenizer = tiny_tokenizer()
        scores = torch.zeros(batch.num_tokens, 2)
        scores[batch.input_ids == tokenizer.token_to_id("good")] = 3.0
        scores[batch.input_ids == tokenizer.token_to_id("lovely")] = 4.0
        scores[batch.first_tokens] = self.null
        return scores


def predict(task, questions, max_length=17):
    encoded = task.encode(tiny_tokenizer(), questions, max_length, labelled=False)
    return task.predict(tiny_model("answer"), encoded, questions)


def question(context, *answers, asked="the film ?"):
    return Question("q", asked, context, tuple(RightAnswer(a, context.index(a)) for a in answers))


def test_the_likelier_one_wins_where_all_scored_questions_have_an_answer():
    asked = [question("a good film", "good"), question("a film", "film")]
    task = Finder(may_abstain=True, null=3.5)  # without a threshold, as in training
    accumulator = task.accumulator("questions")
    accumulator.add(asked, predict(task, asked))  # no answer has a score of 1, and of 7
    report = accumulator.result()
    assert (report.threshold, report.num_unanswered, report.best_f1) == (0.0, 2, None)


def test_no_answer_is_given_above_the_threshold():
    asked = [question("a good film"), question("a lovely film"), question("a film")]
    # The best spans have 6, 8 and 0; no answer has 7.
    for threshold, expected in ((0.0, ["", "lovely", ""]), (1.5, ["good", "lovely", ""])):
        task = Finder(may_abstain=True, threshold=threshold, null=3.5)
        found = predict(task, asked)
        assert [one.answer for one in found] == expected
        assert [one.no_answer_score for one in found] == pytest.approx([1, -1, 7])
        assert found[2].start is found[2].end is None
        assert found[2].best[0] == "a"
        null = np.exp(7) / (np.exp(7) + np.exp(found[2].spans.scores.astype(float)).sum())
        assert found[2].probability == pytest.approx(null)
    always = predict(Finder(null=99), asked)
    assert [one.answer for one in always] == ["good", "lovely", "a"]
    assert (always[0].start, always[0].end) == (2, 6)
    first, *others = always[0].candidates(1000)
    assert first == (always[0].answer, 2, 6, always[0].probability)
    assert sum(each.probability for each in (first, *others)) == pytest.approx(1)
    # The least sure window decides: most lack the answer.
    (long,) = predict(
        Finder(may_abstain=True, windowing=Windowing(stride=4), null=1.0),
        [question(f"{LONG} good")],
    )
    assert long.answer == "good"


def test_no_probability_of_no_answer_is_below_0():
    """With a low threshold, the likeliest spans may be refused, whose probabilities add up to 1."""
    scores = np.sort(np.random.default_rng(0).normal(size=(100, 20)).astype(np.float32))[:, ::-1]
    starts = np.arange(20)
    for of_question in scores:
        spans = SpanCandidates(starts, starts + 1, of_question, null_score=-60.0)
        prediction = AnswerPrediction("a" * 20, spans, threshold=-1e9, is_truncated=False)
        assert not prediction.is_answered
        assert 0 <= prediction.probability < 1e-12


def test_empty_passages_have_no_answer():
    for task in (Finder(), Finder(may_abstain=True)):
        (found,) = predict(task, [question(" \u200b ")])
        assert (found.answer, found.start, found.candidates()) == ("", None, [])
        assert found.probability == 1
        row = found.to_json()
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert str(found.line(question(""))).startswith("(no answer)\t1.0000\tthe film ?")


def test_what_was_moved_lost_or_cut_is_told():
    long_answer = " ".join(LONG.split()[:40])
    questions = [
        Question("a", "?", LONG, (RightAnswer("film", 4, is_moved=True),)),
        Question("b", "?", LONG, (RightAnswer("purple", None),)),
        Question("c", "?", LONG, (RightAnswer(long_answer, 0),)),
        Question("d", "?", "", ()),
    ]
    task = Answer(windowing=Windowing(stride=4))
    encoded = task.encode(tiny_tokenizer(), questions, 17, labelled=True)
    notes = " ".join(task.notes(questions, encoded))
    assert "1 answer was found at another offset" in notes
    assert "1 answer does not occur in its passage" in notes
    assert "2 questions have an answer that is whole in no window; a larger" in notes
    assert "1 question or its passage is empty" in notes
    assert "windows cut an answer" in notes
    rows = encoded.rows_of(1)
    assert set(encoded.row_targets["start_positions"][rows.start : rows.stop]) == {CLS_POSITION}


def with_unanswerable(path, count, seed):
    """Questions of which every third has no answer: the passage lacks the word."""
    data = json.loads(write_questions(path, count, seed).read_text())
    for article in data["data"][::3]:
        (paragraph,) = article["paragraphs"]
        (qa,) = paragraph["qas"]
        words = paragraph["context"].split()
        paragraph["context"] = " ".join(w for w in words if w in OTHER)
        qa["answers"] = []
    path.write_text(json.dumps(data))
    return path


def test_the_threshold_is_learnt_saved_and_used(tmp_path):
    asked = AnswerSettings(
        model=save_tiny(tmp_path / "model", "masked_lm"),
        train=with_unanswerable(tmp_path / "train.json", 120, 0),
        eval=with_unanswerable(tmp_path / "eval.json", 29, 1),
        out=tmp_path / "out", steps=90, learning_rate=5e-3, dropout=0.0, stride=7,
        device="cpu", precision="fp32",
    )  # fmt: skip
    report = finetune(Answer, asked).evaluation
    assert report.no_answer.total == 10
    assert report.overall.f1 > 80
    assert report.threshold > report.best_f1.threshold  # by half the way to the next score
    assert report.overall.f1 == pytest.approx(report.best_f1.score)
    answerer = load(asked.out, device="cpu", precision="fp32")
    assert answerer.definition.may_abstain
    assert answerer.definition.threshold == report.threshold
    again = evaluate(answerer, asked.eval)
    assert again.to_json() == close(report.to_json())
    # Any scorer gives the same for the answers as they are given.
    examples = list(QuestionReader(asked.eval, labelled=False))
    found = answerer.predict(examples)
    pairs = zip(examples, found, strict=True)
    (tmp_path / "p.json").write_text("".join(answerer.definition.formats[".json"](pairs)))
    scored = score_answer_files(asked.eval, tmp_path / "p.json")
    assert scored.overall == report.overall
    assert scored.no_answer == report.no_answer


def test_evaluation_keeps_little_of_each_question(tmp_path, monkeypatch):
    monkeypatch.setattr("bertsmith.tasks.predictor.CHUNK_EXAMPLES", 50)
    answerer = load(save_tiny(tmp_path / "model", "answer"), device="cpu", precision="fp32")
    peaks = []
    for count in (100, 300, 700):  # the first time, what is made once
        path = write_questions(tmp_path / "a.json", count)
        peaks.append(peak(lambda path=path: evaluate(answerer, path)))
    assert peaks[2] - peaks[1] < 400 * 900


def encoded_contexts(*lengths, max_length=17, stride=5):
    questions = [
        Question(str(i), "a film", " ".join(["good"] * length)) for i, length in enumerate(lengths)
    ]
    return encode_questions(tiny_tokenizer(), questions, max_length, Windowing(stride=stride))


def random_logits(encoded, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(length, 2)).astype(np.float32) for length in encoded.rows.lengths]


def every_span(logits, encoded, question, max_answer_length):
    """Score and characters of each span, best first, from the definition."""
    scores = {}
    for row in range(*encoded.starts[question : question + 2]):
        window = encoded.alignment[row]
        in_context = logits[row][window.first_in_row :]
        for first in range(window.size):
            for last in range(first, min(first + max_answer_length, window.size)):
                score = in_context[first, 0] + in_context[last, 1]
                place = (first + window.first_in_context, last + window.first_in_context)
                scores[place] = max(score, scores.get(place, -np.inf))
    offsets = offsets_of(encoded, question)
    ranked = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(s, int(offsets[a, 0]), int(offsets[b, 1])) for (a, b), s in ranked]


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    stride=st.integers(0, 8),
    width=st.integers(1, 20) | st.just(2**60),
    seed=st.integers(0, 99),
)
def test_spans_of_all_windows_compete(lengths, stride, width, seed):
    encoded = encoded_contexts(*lengths, stride=stride)
    logits = random_logits(encoded, seed)
    for question, found in enumerate(best_answers(logits, encoded, width)):
        expected = every_span(logits, encoded, question, width)[:NUM_CANDIDATES]
        assert [
            tuple(span) for span in zip(found.scores, found.starts, found.stops, strict=True)
        ] == expected
        rows = range(*encoded.starts[question : question + 2])
        assert found.null_score == min(logits[row][0].sum() for row in rows)


def test_of_equal_scores_the_earlier_and_shorter_wins():
    encoded = encoded_contexts(5)
    (found,) = best_answers([np.zeros((len(encoded.rows.ids[0]), 2), np.float32)], encoded, 30)
    assert list(zip(found.starts, found.stops, strict=True))[:3] == [(0, 4), (0, 9), (0, 14)]
    assert len(found.scores) == 15


def of_words(count):
    """A question whose answer has `count` tokens."""
    answer = " ".join(["lovely"] * count)
    return question(f"the film was {answer} in a story", answer)


@pytest.mark.parametrize(("lengths", "asked", "expected"), [
    ([45] * 4, None, 45), ([45] * 4, 30, 30), ([45] * 4, 60, 60), ([2] * 4, None, 30),
    ([2] * 3 + [45], None, 45), ([2] * 300 + [45], None, 30),
])  # fmt: skip
def test_answers_may_be_as_long_as_those_of_training(tmp_path, lengths, asked, expected):
    folder = read_folder(save_tiny(tmp_path / "model"))
    questions = [of_words(count) for count in lengths]
    made = AnswerSettings(
        train=tmp_path, eval=tmp_path, model=tmp_path, out=tmp_path, max_answer_length=asked
    )
    task = Answer.of_examples(questions, made).with_model(folder, made, questions)
    assert task.max_answer_length == expected
    assert task.task_settings["max_answer_length"] == expected


def test_answers_that_are_too_long_are_counted_in_training_and_evaluation():
    answers = [" ".join(["lovely"] * count) for count in (32, 31, 2)]
    questions = [question(answer, answer, asked="?") for answer in answers]
    task = Answer()
    encoded = task.encode(tiny_tokenizer(), questions, 37, labelled=True)
    notes = "\n".join(task.notes(questions, encoded))
    assert "2 answers are longer than 30 tokens" in notes
    assert "--max-answer-length 32 allows all" in as_flags(notes)
    accumulator = task.accumulator("questions")
    accumulator.add(questions, task.predict(tiny_model("answer"), encoded, questions))
    told = "2 questions have only right answers that are longer than 30 tokens"
    assert told in str(accumulator.result())
    assert "longer than" not in " ".join(Answer(max_answer_length=32).notes(questions, encoded))


def test_answers_inside_tokens_are_counted_in_training_and_evaluation():
    inside = [question("a lovely film", "ove"), question("the film was dull", "he film")]
    context = "a film (lovely) was , fine story."
    whole = [question(context, answer) for answer in ("lovely", "(lovely)", "was , fine", "story.")]
    either = question("a lovely story", "love", "lovely")  # one of its answers can be given
    aside = Question("q", "?", "a film", (RightAnswer("purple", None),))
    questions = [*inside, *whole, either, aside, question("a film")]
    task = Answer()
    encoded = task.encode(tiny_tokenizer(), questions, 37, labelled=True)
    note = "answers that begin or end inside a token; predicted answers are whole tokens"
    assert f"2 questions have only {note}" in task.notes(questions, encoded)
    accumulator = task.accumulator("questions")
    accumulator.add(questions, task.predict(tiny_model("answer"), encoded, questions))
    report = accumulator.result()
    assert f"2 questions have only right {note}" in str(report)
    assert report.to_json()["num_inside_token"] == 2


@pytest.mark.parametrize("kind", TINY)
def test_white_space_and_punctuation_in_a_token_are_no_part_of_an_answer(kind):
    context = "so the river , \u201cruns\u201d to  the sea ."
    _, offsets = locate_tokens(TINY[kind](), context)
    assert not any(
        begins_or_ends_inside_token(question(context, answer), offsets)
        for answer in ("the", "river", "runs", "to", "the sea", "sea .")
    )
    assert begins_or_ends_inside_token(question(context, "he"), np.array([[3, 6], [7, 12]]))
    assert not begins_or_ends_inside_token(question("(a)", "a"), np.array([[0, 3]]))


@pytest.mark.parametrize(("max_length", "note"), [
    (64, "predicted ones may have up to 45 tokens (--max-answer-length)"),
    (44, "predicted ones may have up to 40 tokens (--max-length)"),
    (24, None),
])  # fmt: skip
def test_no_answer_is_said_to_be_longer_than_a_window(max_length, note):
    answer = " ".join(["lovely"] * 45)
    questions = [question(answer, answer, asked="?")]
    task = Answer(max_answer_length=45)
    encoded = task.encode(tiny_tokenizer(), questions, max_length, labelled=True)
    notes = as_flags("\n".join(task.notes(questions, encoded)))
    assert (note in notes) if note else ("may have up to" not in notes)


def test_the_length_of_answers_is_kept_in_the_folder(tmp_path):
    rows = [
        {"id": str(number), "question": "?", "context": one.context,
         "answers": {"text": [one.answers[0].text], "answer_start": [one.answers[0].start]}}
        for number, one in enumerate([of_words(31), of_words(32)])
    ]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = finetune(
        Answer,
        AnswerSettings(
            train=path,
            eval=path,
            model=save_tiny(tmp_path / "model"),
            out=tmp_path / "out",
            steps=1,
        ),
    )
    assert "32 tokens" in result.notes[0] and "--max-answer-length" in as_flags(result.notes[0])
    assert load(tmp_path / "out").definition.max_answer_length == 32
    old = json.loads((tmp_path / "out/config.json").read_text())
    (key,) = [name for name, value in old.items() if "max_answer_length" in str(value)]
    del old[key]["max_answer_length"]
    (tmp_path / "out/config.json").write_text(json.dumps(old))
    assert load(tmp_path / "out").definition.max_answer_length == 30
