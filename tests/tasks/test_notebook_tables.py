"""Predictions at the end of a notebook's cell: tables of what the console prints."""

import copy
import pickle

import pytest
from html_tables import read_html
from samples import RECORDS
from test_predictor import load  # noqa: F401 - a fixture
from tiny_models import save_tiny

import bertsmith
from bertsmith.evaluation.minimal_pairs import load_pair_scorer
from bertsmith.tasks.label_prediction import ClassPrediction
from bertsmith.tasks.notebook_tables import MAX_CELL_CHARACTERS, MAX_LABELS, MAX_PREDICTIONS

MARKUP = "<script>alert('film')</script> & <b>a good film</b>"


def rows_of(shown):
    """The titles and rows of the only table."""
    (table,) = read_html(shown._repr_html_()).tables
    return table[0], table[1:]


def test_labels_stand_in_the_order_of_their_probability(load):  # noqa: F811
    prediction = load("classify")("a good film")
    titles, rows = rows_of(prediction)
    assert titles == ["label", "probability"]
    assert rows[0] == [prediction.label, f"{prediction.probability:.4f}"]
    assert float(rows[0][1]) >= float(rows[1][1])
    assert dict(rows) == {name: f"{p:.4f}" for name, p in prediction.probabilities.items()}


def test_several_labels_say_which_are_predicted(load):  # noqa: F811
    predictor = load("multi_label")
    low, high = sorted(predictor([("a", "b")])[0].probabilities.values())
    prediction = predictor.with_options(threshold=(low + high) / 2)([("a", "b")])[0]
    _, rows = rows_of(prediction)
    assert [row[1:] for row in rows] == [[f"{high:.4f}", "yes"], [f"{low:.4f}", "no"]]
    assert rows[0][0] == prediction.labels[0]


def test_only_the_likeliest_of_many_labels_are_shown():
    shares = {number: number / 1000 for number in range(40)}
    _, rows = rows_of(ClassPrediction(39, shares))
    assert len(rows) == MAX_LABELS
    assert rows[0] == ["39", "0.0390"]


def test_numbers_and_cosines(load):  # noqa: F811
    value = load("regress")("a good film")
    assert rows_of(value) == (["value"], [[f"{value.value:.4f}"]])
    pair = load("embed")(RECORDS["embed"][2])
    assert rows_of(pair) == (["cosine"], [[f"{pair.cosine:.4f}"]])


def test_choices_are_all_shown_and_the_chosen_one_with_its_text(load):  # noqa: F811
    prediction = load("choose")({"text": "the film was", "choices": [MARKUP, MARKUP]})
    _, rows = rows_of(prediction)
    assert [row[:2] for row in rows] == [
        [str(number), f"{share:.4f}"] for number, share in enumerate(prediction.probabilities)
    ]
    assert rows[prediction.number][2] == MARKUP
    assert rows[1 - prediction.number][2] == ""


def test_entities_and_the_text_that_they_stand_in(load):  # noqa: F811
    prediction = load("tag")(MARKUP)
    html = read_html(prediction._repr_html_())
    assert html.lines == [str(prediction.line(prediction.sentence))]
    shown = [row for table in html.tables for row in table[1:]]
    assert shown == [[e.text, e.label, f"{e.probability:.4f}"] for e in prediction.entities]


def test_words_with_plain_labels(tmp_path):
    folder = save_tiny(tmp_path / "m", "tag", labels=("NOUN", "DET"))
    prediction = bertsmith.load(folder, device="cpu", precision="fp32")("a <film>")
    titles, rows = rows_of(prediction)
    assert titles == ["word", "label", "probability"]
    assert [row[0] for row in rows] == list(prediction.words)
    assert [row[1] for row in rows] == list(prediction.labels)


def test_words_with_labels_that_are_numbers(tmp_path):
    folder = save_tiny(tmp_path / "m", "tag", labels=("0", "1"))
    tagger = bertsmith.load(folder, device="cpu", precision="fp32")
    prediction = tagger.with_options(label_kind="int")("a <film>")
    assert {type(label) for label in prediction.labels} == {int}
    _, rows = rows_of(prediction)
    assert [row[1] for row in rows] == list(map(str, prediction.labels))


def test_the_decision_is_the_first_of_the_answers(load):  # noqa: F811
    answerer = load("answer")
    prediction = answerer("the film ?", MARKUP)
    _, rows = rows_of(prediction)
    assert rows[0] == [prediction.answer, f"{prediction.probability:.4f}"]
    assert [row[0] for row in rows] == [each.text for each in prediction.candidates()]
    silent = answerer.with_options(may_abstain=True, threshold=-1e9)("the film ?", "a good film")
    assert not silent.is_answered
    _, rows = rows_of(silent)
    assert rows[0] == ["(no answer)", f"{silent.probability:.4f}"]
    assert [row[0] for row in rows[1:]] == [each.text for each in silent.candidates()]


def test_guesses_for_each_mask(load):  # noqa: F811
    filler = load("masked_lm").with_options(top=2)
    prediction = filler("a [MASK] film [MASK]")
    _, rows = rows_of(prediction)
    assert rows == [
        [str(number), word.token.strip(), f"{100 * word.probability:.1f} %"]
        for number, words in enumerate(prediction.masks, start=1)
        for word in words
    ]
    assert len(rows) == 4


def test_a_vector_begins(load):  # noqa: F811
    prediction = load("")("a good film")
    (line,) = read_html(prediction._repr_html_()).lines
    assert line.startswith(f"24 numbers: {prediction.vector[0]:.6g} ")


def test_both_sentences_of_a_minimal_pair(tmp_path):
    scorer = load_pair_scorer(save_tiny(tmp_path / "m", "masked_lm"), device="cpu")
    (scores,) = predictions = scorer.predict([("a good film", "a good good film")])
    assert rows_of(scores)[1] == [["good", f"{scores.good:.4f}"], ["bad", f"{scores.bad:.4f}"]]
    titles, rows = rows_of(predictions)
    assert len(titles) == len(rows[0]) == 4
    assert rows[0][2:] == ["a good film", "a good good film"]


@pytest.mark.parametrize("head", RECORDS)
def test_several_predictions_are_a_table_with_their_texts(load, head):  # noqa: F811
    predictor, record = load(head), RECORDS[head][2]
    several = predictor([record, record])
    titles, rows = rows_of(several)
    line = str(several[1].line(predictor.example(record))).split("\t")
    if head == "":
        assert rows[1][0].startswith(line[0][:50]) and len(rows[1][0]) == MAX_CELL_CHARACTERS
        line[0] = rows[1][0]
    assert rows[1] == line
    assert len(titles) == len(line) and all(titles)


def test_texts_are_no_markup(load):  # noqa: F811
    _, rows = rows_of(load("classify")([MARKUP, "a film"]))
    assert [row[2] for row in rows] == [MARKUP, "a film"]


def test_the_first_of_many_are_shown_and_the_others_counted(load):  # noqa: F811
    texts = [f"film {number}" for number in range(MAX_PREDICTIONS + 1500)]
    predictions = load("classify")(texts)
    _, rows = rows_of(predictions)
    assert [row[2] for row in rows] == texts[:MAX_PREDICTIONS]
    assert read_html(predictions._repr_html_()).lines == ["… and 1,500 more"]


def test_a_list_that_was_changed_is_shown_as_text(load):  # noqa: F811
    predictor = load("classify")
    predictions = predictor(["a good film", "a bad film", "a film"])
    html = predictions._repr_html_()
    again = [pickle.loads(pickle.dumps(predictions)), copy.copy(predictions)]
    assert [each._repr_html_() for each in again] == [html, html]
    assert type(predictions[:2]) is list
    predictions.reverse()
    assert predictions._repr_html_() is None
    for change in (list.pop, list.clear, lambda several: several.append(several[0])):
        changed = predictor(["a good film", "a bad film"])
        change(changed)
        assert changed._repr_html_() is None
    assert predictor([])._repr_html_() is None
