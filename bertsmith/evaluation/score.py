"""Scores of a file of predictions, by any system, against gold data; no model is needed.

Gold data have the right labels or answers. Rows are counted as they are read, so files may have any
size. Three things stay in memory: numbers (16 bytes per row), since their ranks are needed; ids
(see `row_pairs.py`); and answers, which are looked up by the id of the question. No function here
needs torch. Variables named `right` hold gold labels or answers.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.columns import ChoiceColumns, Columns, TagColumns
from bertsmith.data.examples import Example, ExampleReader, check_header
from bertsmith.data.label_remarks import other_names
from bertsmith.data.label_separator import check_label_separator
from bertsmith.data.labels import (
    check_predicted_names,
    label_set,
    parse_number,
    sorted_names,
    split_labels,
)
from bertsmith.data.multiple_choice import ChoiceReader
from bertsmith.data.predictions import (
    NUMBER_COLUMNS,
    PredictedLabel,
    read_answers,
    read_labels,
    read_no_answer_probs,
)
from bertsmith.data.squad import QuestionReader, question_format
from bertsmith.data.tables import whole_number
from bertsmith.data.tagged import TaggedSentence
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.text_files import locate_row
from bertsmith.errors import ConfigError, InputError, SettingError, option, warn_once
from bertsmith.evaluation.row_pairs import pair_rows
from bertsmith.evaluation.settings import AnswerScoring, ClassColumns
from bertsmith.metrics.answer_report import AnswerReport, summarize_answers
from bertsmith.metrics.answers import (
    DEFAULT_THRESHOLD,
    INFINITE_SCORE,
    QuestionScores,
    find_language,
)
from bertsmith.metrics.class_report import ClassReport, summarize
from bertsmith.metrics.entities import TagCounts, TagReport
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.metrics.multiple_choice import ChoiceReport
from bertsmith.metrics.regression import NumberReport


def score_answer_files(
    gold: Path, predictions: Path, options: AnswerScoring | None = None
) -> AnswerReport:
    """Score predicted answers as the official scorers of SQuAD 1.1, 2.0 and CMRC 2018 do.

    Args:
        gold: a file of questions with their answers: .json in SQuAD's format, or a question in each
            row, as in .jsonl.
        predictions: `.json`, an object from each question's id to the answer, or `.jsonl` with `id`
            and `answer` in each line. The answer is empty if the prediction is "no answer".
        options: the rules and the threshold. Answers whose no-answer probability is above the
            threshold count as empty. The default is 1 for a `.json` of probabilities. A `.jsonl`
            has differences of logits, which have already decided its answers, so by default no
            threshold applies.

    Raises:
        ConfigError: a threshold is given without probabilities, or is not a finite number.
        InputError: a file cannot be read, or a prediction has no probability.
    """
    options = options or AnswerScoring()
    threshold = options.no_answer_threshold
    probs_file = options.no_answer_probs
    if threshold is not None and not math.isfinite(threshold):
        raise SettingError("no_answer_threshold", threshold, "a finite number")
    if threshold is not None and probs_file is None:
        raise ConfigError(
            f"{option('no_answer_threshold')}: {threshold:g} has no probabilities to be compared "
            f"with. Give {option('no_answer_probs')} too, or leave it out."
        )
    reader = QuestionReader(gold, needs_offsets=False)
    right_answers = {
        question.id: [answer.text for answer in question.answers] for question in reader
    }
    predicted_answers = read_answers(predictions)
    language = options.language
    if language == "auto":
        language = find_language(right_answers.values())
    questions = QuestionScores(language)  # adds up the scores of questions
    for id_, answers in right_answers.items():
        questions.add(predicted_answers.get(id_), answers)
    no_answer_probs = None
    order = None
    lowest = 0.0  # what is reported as the best threshold if it is best to keep no answer
    if probs_file is not None:
        probs = read_no_answer_probs(probs_file)
        predicted_ids = [id_ for id_ in right_answers if id_ in predicted_answers]
        if missing := [id_ for id_ in predicted_ids if id_ not in probs]:
            raise InputError(
                f"{probs_file}: no number for {len(missing):,} of the {len(predicted_answers):,} "
                f"predictions, such as that for the question '{missing[0]}'. Give one for each."
            )
        # A question without a prediction scores 0 in any case; the 0.0 is not used.
        no_answer_probs = [probs.get(id_, 0.0) for id_ in right_answers]
        # To find the best threshold, the official script takes questions with equal probabilities
        # in the order of the file of probabilities.
        indices = {id_: index for index, id_ in enumerate(right_answers)}
        order = [indices[id_] for id_ in probs if id_ in indices]
        default = DEFAULT_THRESHOLD
        # "squad" is the format of a .json of probabilities. Other files have differences of logits,
        # which have no bounds, so other thresholds keep all answers (`default`) or none (`lowest`).
        if question_format(probs_file) != "squad":
            default, lowest = INFINITE_SCORE, -INFINITE_SCORE
        threshold = default if threshold is None else threshold
    report = summarize_answers(
        questions,
        no_answer_probs=no_answer_probs,
        threshold=threshold,
        order=order,
        lowest=lowest,
        num_unknown=len(predicted_answers.keys() - right_answers.keys()),
    )
    return replace(
        report, num_moved=reader.num_moved, num_lost=reader.num_lost, num_empty=reader.num_empty
    )


def score_class_files(
    gold: Path, predictions: Path, columns: ClassColumns | None = None
) -> ClassReport | MultiLabelReport:
    """Score predicted labels, one for each row of `gold`, or several.

    Rows are paired by ids that both files have, or else by their order (`pair_rows`). `predictions`
    is a `.txt` with a label on each line, or a table or `.jsonl` with a column `prediction`,
    `predicted_label` or `label`, such as `bertsmith predict --out` writes. If there is one of the
    first two, a column `label` holds the gold label and is not read.

    Raises:
        InputError: a file cannot be read, the rows do not belong together, or a number is written
            in two ways (`1` and `1.0`).
    """
    if columns and columns.multi_label:
        return _score_label_sets(gold, predictions, columns)
    # By the predicted labels, the reader chooses whether numbered classes of a Parquet file, which
    # also have names, are read as numbers or as names.
    compared = _PredictedNames(predictions, columns)
    reader = ExampleReader(gold, columns, needs_text=False, compared_labels=compared)
    counts: Counter[tuple[str, str]] = Counter()
    gold_rows: dict[str, int] = {}  # of each label, its first row in the gold file
    predicted_rows: dict[str, int] = {}  # of each label, its first row in the predictions
    first_example: Example | None = None
    for example, prediction in pair_rows(gold, reader, predictions):
        first_example = first_example or example
        right, predicted = str(example.label), prediction.label
        gold_rows.setdefault(right, example.row)
        predicted_rows.setdefault(predicted, prediction.ordinal)
        counts[right, predicted] += 1
    assert first_example is not None  # a reader without any example raises an error
    # A first row whose label does not come again may be a header, which is then refused.
    num_same = sum(count for (right, _), count in counts.items() if right == first_example.label)
    check_header(reader, first_example, num_examples=counts.total(), comes_again=num_same > 1)
    # Refuses a value that is written in two ways, such as 1 and 1.0.
    check_predicted_names(gold_rows, gold, predicted_rows, predictions)
    _warn_of_other_names(gold, list(gold_rows), predictions, list(predicted_rows))
    names = sorted_names([*gold_rows, *predicted_rows])
    indices = {name: index for index, name in enumerate(names)}
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    for (right, predicted), count in counts.items():
        confusion[indices[right], indices[predicted]] = count
    return summarize(confusion, names, num_skipped=reader.num_skipped)


def _score_label_sets(gold: Path, predictions: Path, columns: ClassColumns) -> MultiLabelReport:
    """Score predicted label sets, one for each row of `gold`.

    Labels are written as one text with a separator between them, in `.jsonl` also as a list. The
    column of predictions may also be called `labels`.

    Raises:
        ConfigError: the separator is empty.
        InputError: a file cannot be read, the rows do not belong together, or there is no label.
    """
    separator = columns.label_separator
    check_label_separator(separator)
    compared = _PredictedNames(predictions, columns)
    reader = ExampleReader(
        gold, columns, is_multi_label=True, needs_text=False, compared_labels=compared
    )
    # Numbers of texts, by label, whose label is right and predicted; is predicted; is right.
    both, predicted, support = Counter[str](), Counter[str](), Counter[str]()
    num_texts = num_exact = 0
    for example, prediction in pair_rows(gold, reader, predictions, several=True):
        right = set(label_set(example, separator))
        predicted_labels = set(split_labels(prediction.label, separator))
        both.update(right & predicted_labels)
        predicted.update(predicted_labels)
        support.update(right)
        num_exact += right == predicted_labels
        num_texts += 1
    _warn_of_other_names(gold, list(support), predictions, list(predicted))
    names = sorted_names([*support, *predicted])
    if not names:
        raise InputError(
            f"{gold}: no row has a label. Choose the column with {option('label_column')}."
        )

    def by_name(counter: Counter[str]) -> NDArray[np.int64]:
        return np.array([counter[name] for name in names])

    counts = LabelCounts(by_name(both), by_name(predicted), by_name(support), num_exact, num_texts)
    return MultiLabelReport.of(counts, names, num_skipped=reader.num_skipped)


@dataclass(frozen=True)
class _PredictedNames:
    """The labels of a file of predictions, which is read only when they are iterated over."""

    predictions: Path
    columns: ClassColumns | None

    def __iter__(self) -> Iterator[str]:
        columns = self.columns or ClassColumns()
        for prediction in read_labels(
            self.predictions, several=columns.multi_label, delimiter=columns.delimiter
        ):
            if columns.multi_label:
                yield from split_labels(prediction.label, columns.label_separator)
            else:
                yield prediction.label


def _warn_of_other_names(
    gold: Path, right: Sequence[str], predictions: Path, predicted: Sequence[str]
) -> None:
    """Warn if the two files have no label in common."""
    if remark := other_names(right, predicted):
        warn_once(f"{predictions}: none of its labels is a label of {gold}: {remark}.")


def score_number_files(
    gold: Path, predictions: Path, columns: Columns | None = None
) -> NumberReport:
    """Score predicted numbers, one for each row of `gold`.

    Rows are paired by ids that both files have, or else by their order (`pair_rows`). `predictions`
    is a `.txt` with a number on each line, or a table or `.jsonl` with a column such as
    `prediction`, `value` or `score`. If there is one of these, a column `label` holds the gold
    number and is not read.

    Raises:
        InputError: a file cannot be read, or the rows do not belong together.
    """
    reader = ExampleReader(gold, columns, needs_text=False)
    right, predicted = array("d"), array("d")
    pairs = pair_rows(gold, reader, predictions, columns=NUMBER_COLUMNS)
    for example, prediction in pairs:
        right.append(parse_number(example.label, f"{locate_row(gold, example.row)}: the label"))
        location = f"{predictions}: prediction {prediction.ordinal:,}:"
        advice = f"Fix the row.{_if_header(prediction)}"
        predicted.append(parse_number(prediction.label, location, advice))
    return NumberReport.of(
        np.frombuffer(right), np.frombuffer(predicted), num_skipped=reader.num_skipped
    )


def score_tag_files(gold: Path, predictions: Path, columns: TagColumns | None = None) -> TagReport:
    """Score predicted labels of words, sentence by sentence.

    `predictions` has the same sentences in the same order, in any format of labelled words. Its
    labels may follow another scheme than those of `gold`, unless `columns` names a scheme, which
    then holds for both files. The options `split` and `repair` hold for both files too; all others
    in `columns` are for reading `gold`, while `predictions` has the usual columns. Sentences
    without words are skipped in both files, as not every format can express them.

    Raises:
        InputError: a file cannot be read, or the sentences are not the same.
    """
    columns = columns or TagColumns()
    reader = TaggedReader(gold, columns)
    gold_sentences = (sentence for sentence in reader if sentence.words)
    first = next(gold_sentences, None)
    if first is None:
        raise InputError(f"{gold}: no sentence with words in it. Give a file with at least one.")
    shared = TagColumns(scheme=columns.scheme, split=columns.split, repair=columns.repair)
    # The scheme of the gold labels decides where that of the predictions is not clear.
    predicted_reader = TaggedReader(predictions, shared, gold_scheme=first.scheme)
    predicted_sentences = (sentence for sentence in predicted_reader if sentence.words)
    counts: TagCounts | None = None
    for sentence_number, (right, predicted) in enumerate(
        zip_longest(chain([first], gold_sentences), predicted_sentences), start=1
    ):
        _check_words(gold, right, predictions, predicted, sentence_number)
        counts = counts or TagCounts(predicted.scheme, strict=columns.strict)
        # Remarks say how a file was read. Those on words would be the same for both files, so of
        # the predictions only comments and repaired labels are counted.
        counts.remarks.update(right.remarks)
        counts.remarks["comments"] += predicted.remarks.count("comments")
        counts.remarks["repaired_predictions"] += predicted.remarks.count("repaired")
        try:
            counts.add(right.labels, predicted.labels, gold_scheme=right.scheme)
        except InputError as error:
            raise InputError(
                f"{gold}:{right.row} and {predictions}:{predicted.row}: {error.message}"
            ) from None
    assert counts is not None  # there is at least one sentence, else reading raises an error
    return counts.report(num_skipped=reader.num_skipped)


def _check_words(
    gold: Path,
    right: TaggedSentence | None,
    predictions: Path,
    predicted: TaggedSentence | None,
    number: int,
) -> None:
    """Check that both sentences exist and have the same words.

    Raises:
        InputError: a sentence is missing, or the words differ.
    """
    if right is None or predicted is None:
        shorter, longer = (gold, predictions) if right is None else (predictions, gold)
        raise InputError(
            f"{shorter}: no sentence {number:,}, which {longer} has. Give the same sentences in "
            "the same order."
        )
    if right.words != predicted.words:
        shown = " ".join(predicted.words[:8]), " ".join(right.words[:8])
        raise InputError(
            f"{predictions}:{predicted.row}: sentence {number:,} begins '{shown[0]}', but in "
            f"{gold}:{right.row} '{shown[1]}'. Give the same sentences in the same order."
        )


def score_choice_files(
    gold: Path, predictions: Path, columns: ChoiceColumns | None = None
) -> ChoiceReport:
    """Score predicted choices, one for each row of `gold`, a prompt with its choices.

    Rows are paired by ids that both files have, or else by their order (`pair_rows`). `predictions`
    is a `.txt` with the number of a choice on each line, or a table or `.jsonl` with a column such
    as `prediction` or `label`. Choices are counted from 0, as `bertsmith predict` writes them.

    Raises:
        InputError: a file cannot be read, or the rows do not belong together.
    """
    reader = ChoiceReader(gold, columns, needs_prompt=False)
    num_right = 0
    sizes: Counter[int] = Counter()  # numbers of prompts by the number of their choices
    for example, prediction in pair_rows(gold, reader, predictions):
        size = len(example.choices)
        num_right += _choice_number(predictions, prediction, size) == example.label
        sizes[size] += 1
    num_prompts = sizes.total()
    return ChoiceReport(
        accuracy=num_right / num_prompts,
        chance=sum(count / size for size, count in sizes.items()) / num_prompts,
        num_prompts=num_prompts,
        num_skipped=reader.num_skipped,
    )


def _choice_number(path: Path, prediction: PredictedLabel, num_choices: int) -> int:
    """Parse the number of a predicted choice.

    Raises:
        InputError: there is no such choice.
    """
    label = prediction.label
    number = whole_number(label)
    if number is None or number >= num_choices:
        raise InputError(
            f"{path}: prediction {prediction.ordinal:,} is '{label}'; allowed are 0 to "
            f"{num_choices - 1}. Give the number of the choice, counted from 0."
            f"{_if_header(prediction)}"
        )
    return number


def _if_header(prediction: PredictedLabel) -> str:
    """Return advice for a line that cannot be a prediction, if it is the first one of its file."""
    return " If it is a header, remove it." if prediction.ordinal == 1 else ""
