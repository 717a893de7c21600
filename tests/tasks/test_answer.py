"""Answers to questions: equal to transformers, across windows, and none where there is none."""

import json
import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from close_figures import close
from samples import write_questions
from tiny_models import OTHER, loss_of, save_tiny, tiny_model, tiny_tokenizer

from bertsmith.commands.predict import typed_examples
from bertsmith.data.question_windows import NO_ANSWER
from bertsmith.data.squad import Answer as RightAnswer
from bertsmith.data.squad import Question, QuestionReader
from bertsmith.data.windows import Windowing
from bertsmith.errors import CheckpointError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.score import score_answer_files
from bertsmith.finetuning.run import finetune
from bertsmith.metrics.answers import ENDLESS, BestThreshold
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.tasks import auto as predict_module
from bertsmith.tasks.answer_prediction import passage
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.inference import compute_tokens_in_order
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.question_answering import Answer, AnswerSettings, padded_logits
from bertsmith.tasks.task import named_settings

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"), "answer")


def texts(*questions):
    return Answer(windowing=Windowing(stride=7)).encode(
        tiny_tokenizer(), questions, 23, labelled=True
    )


def test_transformers_opens_the_folder_with_equal_logits(folder):
    from transformers import AutoModelForQuestionAnswering

    theirs = AutoModelForQuestionAnswering.from_pretrained(folder)
    encoded = texts(question(LONG + " good"), question("a good film", asked="what ?"))
    model = load_model(folder)
    for row, ours in enumerate(compute_tokens_in_order(model, encoded.rows, Answer().outputs)):
        with torch.inference_mode():
            expected = theirs(
                input_ids=torch.from_numpy(encoded.rows.ids[row]).long()[None],
                token_type_ids=torch.from_numpy(encoded.rows.type_ids[row]).long()[None],
            )
        np.testing.assert_allclose(ours[:, 0], expected.start_logits[0], atol=1e-5)
        np.testing.assert_allclose(ours[:, 1], expected.end_logits[0], atol=1e-5)


def test_a_folder_of_transformers_answers_here_with_equal_logits_and_loss(tmp_path):
    from transformers import BertConfig, BertForQuestionAnswering

    torch.manual_seed(0)
    theirs = BertForQuestionAnswering(
        BertConfig(
            vocab_size=20, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=36, max_position_embeddings=41, initializer_range=0.3,
        )
    ).eval()  # fmt: skip
    theirs.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    answerer = load(tmp_path, device="cpu", precision="fp32")
    assert answerer.definition == Answer()
    questions = [question(LONG + " good film", "good film"), question("a dull film", "dull")]
    encoded = answerer.definition.encode(tiny_tokenizer(), questions, 23, labelled=True)
    batch = collate(encoded.by_row(), range(len(encoded.rows)))
    lengths = torch.tensor(batch.lengths)
    places = torch.arange(max(batch.lengths))
    order = list(batch.order)
    padded = torch.nn.utils.rnn.pad_sequence(batch.input_ids.split(batch.lengths), True)
    types = torch.nn.utils.rnn.pad_sequence(batch.token_type_ids.split(batch.lengths), True)
    with torch.inference_mode():
        expected = theirs(
            input_ids=padded,
            token_type_ids=types,
            attention_mask=(places < lengths[:, None]).long(),
            start_positions=batch.targets["start_positions"][order],
            end_positions=batch.targets["end_positions"][order],
        )
        ours = padded_logits(answerer.definition.outputs(answerer.loaded.model, batch), batch)
    is_token = places < lengths[:, None]
    torch.testing.assert_close(ours[..., 0][is_token], expected.start_logits[is_token])
    torch.testing.assert_close(ours[..., 1][is_token], expected.end_logits[is_token])
    assert ours[~is_token].eq(-torch.inf).all()
    # Their loss is over padding too, ours is not: equal where it weighs nothing.
    masked = [
        torch.nn.functional.cross_entropy(
            logits.masked_fill(~is_token, -torch.inf), batch.targets[name][order]
        )
        for logits, name in (
            (expected.start_logits, "start_positions"),
            (expected.end_logits, "end_positions"),
        )
    ]
    term = loss_of(answerer.definition, answerer.loaded.model, batch)
    torch.testing.assert_close(term.sum / term.count, (masked[0] + masked[1]) / 2)
    predictions = answerer.definition.predict(answerer.loaded.model, encoded, questions)
    rows = np.diff(encoded.starts)
    total = sum(p.loss * count for p, count in zip(predictions, rows, strict=True))
    assert total == pytest.approx(term.sum.item(), rel=1e-5)


def test_answers_compete_across_windows():
    context = f"a good film {LONG} lovely {LONG}"
    (found,) = predict(Finder(windowing=Windowing(stride=4)), [question(context)])
    assert (found.answer, found.start) == ("lovely", context.index("lovely"))
    assert context[found.start : found.end] == "lovely"
    first, second = found.candidates(2)
    assert first == (found.answer, found.start, found.end, found.probability)
    assert first.probability > second.probability > 0
    alone = predict(Finder(windowing=Windowing(stride=4)), [question("a good film")])[0]
    assert (alone.answer, alone.start, alone.end) == ("good", 2, 6)


@pytest.mark.parametrize(
    "context, answer",
    [
        ("film 👩‍🚀 Lovely❤️ film", "Lovely"),
        ("الفيلم, lovely جيد", "lovely"),
        ("a lo\u0301vely\u0301 film", "lo\u0301vely\u0301"),
        ("a lovely\u0301\u0327film", "lovely\u0301\u0327film"),
        ("\u200f\u200bLOVELY\u200b\r\nfilm", "LOVELY"),
        ("好lovely好", "lovely"),
    ],
)
def test_an_answer_is_a_slice_of_the_context_as_it_is_written(context, answer):
    (found,) = predict(Finder(max_answer_length=1), [question(context)])
    if "lovely" in tiny_tokenizer().encode(context).tokens:
        assert found.answer == answer
    assert context[found.start : found.end] == found.answer


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
    # The least sure window decides: most lack the answer.
    (long,) = predict(
        Finder(may_abstain=True, windowing=Windowing(stride=4), null=1.0),
        [question(f"{LONG} good")],
    )
    assert long.answer == "good"


def test_empty_passages_have_no_answer():
    for task in (Finder(), Finder(may_abstain=True)):
        (found,) = predict(task, [question(" \u200b ")])
        assert (found.answer, found.start, found.candidates()) == ("", None, [])
        assert found.probability == 1
        row = found.to_json()
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert str(found.line(question(""))).startswith("(no answer)\t1.0000\tthe film ?")


def test_a_question_that_is_too_long_is_said_to_be(folder):
    answerer = load(folder, device="cpu", precision="fp32")
    assert answerer("film " * 50, "a good film").is_truncated
    short = answerer("film ?", "a good film")
    assert not short.is_truncated
    assert answerer([("film ?", "a good film")])[0].answer == short.answer
    with pytest.raises(InputError, match="'context': not given"):
        answerer("film ?")
    for pair, found in ((("q", None), "'context': found N"), ((5, "x"), "'question': found int")):
        with pytest.raises(InputError, match=rf"examples\[0\]: {found}"):
            answerer([pair])


def test_the_answer_is_marked_in_its_passage():
    context = f"{LONG}\n lovely {LONG}"
    task = Finder(windowing=Windowing(stride=4))
    (found,) = predict(task, [question(context)])
    line = found.line(question(context))
    assert line.plain.startswith(f"lovely\t{found.probability:.4f}\tthe film ?\t…")
    assert "and lovely the film" in line.plain
    (mark,) = line.spans
    assert line.plain[mark.start : mark.end] == "lovely"
    assert passage("one\ttwo  three", 4, 7) == ("one ", "two", " three")
    assert passage("a\nb", None, None) == ("a b", "", "")


def test_words_on_the_command_line_are_pairs():
    first, second = typed_examples(Answer(), ["who ?", "the film", "what ?", "a story"])
    assert (second.question, second.context, second.id) == ("what ?", "a story", "2")
    assert first.row == 1
    for words in (["who ?"], ["who ?", " "], ["a", "b", "c"]):
        with pytest.raises(InputError, match=r"a question and its context|text 2 is empty"):
            typed_examples(Answer(), words)


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
    assert "1 answer stood elsewhere" in notes
    assert "1 answer does not stand in its passage" in notes
    assert "2 questions have an answer that is whole in no window" in notes
    assert "1 question or its passage is empty" in notes
    assert "windows hold part of an answer" in notes
    assert not task.notes(questions[3:3], task.encode(tiny_tokenizer(), [], 17, labelled=True))
    rows = encoded.rows_of(1)
    assert set(encoded.row_targets["start_positions"][rows.start : rows.stop]) == {NO_ANSWER}


def test_an_evaluation_tells_how_often_no_answer_was_given():
    asked = [question("a good film", "good"), question("a lovely film", "lovely")]
    reports = []
    for may_abstain in (True, False):
        task = Finder(may_abstain=may_abstain, threshold=0.0 if may_abstain else None, null=3.5)
        accumulator = task.accumulator("a.json")
        accumulator.add(asked, predict(task, asked))
        reports.append(accumulator.result())
    assert reports[0].overall.exact_match == 50
    assert (reports[0].protocol, reports[0].num_unanswered) == ("1.1", 1)
    assert "1 of 2 questions was given no answer (threshold 0)" in str(reports[0])
    assert "given no answer" not in str(reports[1])


def test_an_evaluation_tells_which_texts_were_cut():
    asked = [question("a good film", asked="film " * 50), question(LONG)]
    for windowing, note in (
        (Windowing(stride=4), "1 question was itself too long for the model"),
        (Windowing("cut"), "2 questions or their passages were longer"),
    ):
        task = Finder(windowing=windowing)
        accumulator = task.accumulator("a.json")
        accumulator.add(asked, predict(task, asked))
        assert note in str(accumulator.result())


def test_where_it_is_best_to_give_no_answer_none_is_given():
    asked = [question("a good film"), question("the lovely film")]
    task = Finder(may_abstain=True, null=-50.0)  # to the model every answer is better than none
    accumulator = task.accumulator("a.json")
    accumulator.add(asked, predict(task, asked))
    assert max(accumulator.no_answer_scores) < 0
    report = accumulator.result()
    assert report.overall.f1 == 100
    assert "where no answers are given" in str(report)
    assert "2 of 2 questions were given no answer (threshold below all)" in str(report)
    found = predict(task.with_threshold(report), asked)
    assert [prediction.answer for prediction in found] == ["", ""]


def test_an_answer_with_the_right_words_in_another_order_is_wrong():
    class FromGoodToLovely(Finder):
        def outputs(self, model, batch):
            scores = super().outputs(model, batch)
            scores[batch.input_ids == tiny_tokenizer().token_to_id("good"), 1] = -9.0
            scores[batch.input_ids == tiny_tokenizer().token_to_id("lovely"), 0] = -9.0
            return scores

    asked = question("a good lovely film", "good lovely")
    (found,) = predict(FromGoodToLovely(), [asked])
    assert found.answer == "good lovely"
    right = Finder().outcome(asked, found)
    assert (right.score, right.is_right) == (1.0, True)
    swapped = replace(asked, answers=(RightAnswer("lovely good", None),))
    wrong = Finder().outcome(swapped, found)
    assert (wrong.score, wrong.is_right) == (1.0, False)


def test_every_answer_is_given_up_to_an_endless_threshold():
    asked = [question("a good film", "good"), question(" ")]
    task = Finder(may_abstain=True)
    accumulator = task.accumulator("a.json")
    accumulator.add(asked, predict(task, asked))
    report = replace(accumulator.result(), best_f1=BestThreshold(50, ENDLESS), threshold=ENDLESS)
    assert "best F1 50.0000, where all answers are given" in str(report)
    assert "no answer (threshold none)" in str(report)
    assert np.float32(ENDLESS) == np.finfo(np.float32).max
    assert predict(task, asked)[1].no_answer_score == ENDLESS


def test_an_evaluation_tells_what_what_was_moved_or_lost():
    asked = [
        Question("a", "?", "a good film", (RightAnswer("good", 2, is_moved=True),)),
        Question("b", "?", "a film", (RightAnswer("dull", None), RightAnswer("a", 0))),
        Question("c", "?", " "),
    ]
    accumulator = Answer().accumulator("a.json")
    accumulator.add(asked, predict(Finder(), asked))
    report = accumulator.result()
    assert (report.num_moved, report.num_lost, report.num_empty) == (1, 1, 1)


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
    settings = AnswerSettings(
        model=save_tiny(tmp_path / "model", "masked_lm"),
        train=with_unanswerable(tmp_path / "train.json", 120, 0),
        eval=with_unanswerable(tmp_path / "eval.json", 29, 1),
        out=tmp_path / "out", steps=120, learning_rate=5e-3, dropout=0.0, stride=7,
        device="cpu", precision="fp32",
    )  # fmt: skip
    result = finetune(Answer, settings)
    report = result.evaluation
    assert report.no_answer.total == 10
    assert report.overall.f1 > 80
    assert report.threshold > report.best_f1.threshold  # by half the way to the next score
    assert report.overall.f1 == pytest.approx(report.best_f1.score)
    saved = read_folder(settings.out).settings["bertsmith"]
    assert saved["may_abstain"]
    assert saved["threshold"] == report.threshold
    answerer = load(settings.out, device="cpu", precision="fp32")
    again = evaluate(answerer, settings.eval)
    assert again.to_json() == close(report.to_json())
    # Any scorer gives the same for the answers as they are given.
    examples = list(QuestionReader(settings.eval, labelled=False))
    found = answerer.predict(examples)
    pairs = zip(examples, found, strict=True)
    (tmp_path / "p.json").write_text("".join(answerer.definition.formats[".json"](pairs)))
    scored = score_answer_files(settings.eval, tmp_path / "p.json")
    assert scored.overall == report.overall
    assert scored.no_answer == report.no_answer
    # Without a chance to abstain the rest of the scores is the same.
    eager = replace(answerer.definition, may_abstain=False, threshold=None)
    accumulator = eager.accumulator(settings.eval)
    labelled = list(QuestionReader(settings.eval))
    accumulator.add(labelled, found)
    assert accumulator.result().no_answer.exact_match == 0
    assert accumulator.result().best_f1 == again.best_f1


def test_nothing_to_learn_from(tmp_path):
    path = with_unanswerable(tmp_path / "a.json", 1, 0)
    settings = AnswerSettings(model=tmp_path, train=path, eval=path, out=tmp_path / "out")
    with pytest.raises(InputError, match="none of the 1 questions has an answer"):
        Answer.read(settings)


def test_a_folder_without_the_head(tmp_path):
    with pytest.raises(CheckpointError, match=r"no question answering head.*finetune answer"):
        Predictor.load(save_tiny(tmp_path / "bare"), Answer)


def test_a_saved_task_is_found_again(tmp_path):
    task = Answer(
        may_abstain=True,
        threshold=1.25,
        windowing=Windowing("cut", 9),
        max_answer_length=5,
        language="zh",
    )
    model = tiny_model("answer")
    model.task_settings = named_settings(task)
    save_model(model, tmp_path, tiny_tokenizer())
    assert load(tmp_path).definition == task


def test_evaluation_keeps_little_of_each_question(tmp_path, monkeypatch):
    monkeypatch.setattr(predict_module, "CHUNK_EXAMPLES", 50)
    answerer = load(save_tiny(tmp_path / "model", "answer"), device="cpu", precision="fp32")
    peaks = []
    for count in (600, 600, 2400):  # the first time, what is made once
        path = write_questions(tmp_path / "a.json", count)
        tracemalloc.start()
        evaluate(answerer, path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 600 * 1800
