"""Pair the rows of a gold file with their predictions, by ids or by their order.

The gold file has the right labels. The predictions are in a file of their own, which any system may
have written.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Generic, TypeVar

from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.predicted_columns import PREDICTED_LABEL_COLUMNS
from bertsmith.data.predictions import PredictedLabel, read_labels
from bertsmith.data.records import RecordReader, SourceRow
from bertsmith.data.row_ids import ID_COLUMNS, row_ids
from bertsmith.data.tagged_checks import shorten_cell
from bertsmith.errors import InputError, warn_once
from bertsmith.system.counts import count_noun

NUM_SHOWN = 3
"""Number of predictions that an error about a wrong number of them shows."""

Gold = TypeVar("Gold", bound=Example | ChoiceExample)


def pair_rows(
    gold: Path,
    reader: RecordReader[Gold],
    predictions: Path,
    *,
    columns: Sequence[str] = PREDICTED_LABEL_COLUMNS,
    several: bool = False,
) -> Iterator[tuple[Gold, PredictedLabel]]:
    """Yield each example of `gold` with its prediction, in the order of `gold`.

    If both files have a column of ids of the same name, such as `id`, an example and its prediction
    have the same id. Otherwise they have the same position. From the first row whose ids differ,
    the rest of both files is held in memory.

    Args:
        reader: the reader of `gold`.
        columns: names of columns that may hold predictions; the first one that the file has is
            read.
        several: whether a prediction may have any number of labels, as one text or as a JSON list.

    Raises:
        InputError: a row has no prediction or several, or a prediction is for another row or text.
    """
    rows = reader.with_rows()  # examples, each with all columns of its row
    rows = chain(list(islice(rows, 1)), rows)  # having read a row, the reader knows its columns
    # `names` has the columns that the reader takes, by their content, such as text and label.
    text_names = reader.names.get("text", ())
    text_column = text_names[0] if len(text_names) == 1 else None
    predicted = read_labels(
        predictions,
        columns=columns,
        several=several,
        delimiter=reader.options.delimiter,
        text_column=text_column,
    )
    pairing = _Pairing(gold, predictions, reader, text_column)
    return pairing.pairs(rows, predicted, taken=set(chain(*reader.names.values())))


@dataclass
class _Pairing(Generic[Gold]):
    """Pairs the rows of two files, and checks that they belong together.

    `text_column` is the column of the texts, which both files may have. `id_column` is that of the
    ids; None if the files have no such column in common.
    """

    gold: Path
    predictions: Path
    reader: RecordReader[Gold]
    text_column: str | None
    id_column: str | None = None
    first_labels: list[str] = field(default_factory=list)
    """Labels of the first predictions read, at most `NUM_SHOWN`."""

    def pairs(
        self,
        rows: Iterator[tuple[Gold, SourceRow]],
        predicted: Iterator[PredictedLabel],
        taken: set[str],
    ) -> Iterator[tuple[Gold, PredictedLabel]]:
        """Yield the pairs by position, and by id from the first row whose ids differ.

        Args:
            taken: names of the columns that hold texts or labels, and so no ids.
        """
        predicted = self._noting_first(predicted)
        paired_ids: list[str] = []
        for position, (row, prediction) in enumerate(zip_longest(rows, predicted), start=1):
            # The values of columns that may hold ids, by the columns' names.
            gold_ids = row_ids(row[1].columns, row[1].values) if row else {}
            if position == 1 and prediction is not None:
                taken_names = {name.strip().lower() for name in taken}
                # The first usual name that both files have, unless it is that of texts or labels.
                shared = gold_ids.keys() & prediction.ids.keys() - taken_names
                self.id_column = next((name for name in ID_COLUMNS if name in shared), None)
            if self.id_column is not None:
                gold_id = gold_ids.get(self.id_column, "")
                if row is None or prediction is None or gold_id != self._id_of(prediction):
                    # From here on the files have another order, or one of them has ended.
                    rest = list(chain([row] if row else [], rows))
                    rest_predicted = list(chain([prediction] if prediction else [], predicted))
                    yield from self._pairs_by_id(rest, rest_predicted, paired_ids)
                    return
                paired_ids.append(gold_id)
            if row is None or prediction is None:
                # The lengths of both files: what was read, and the rest of the longer one.
                num_rows = position - (row is None) + sum(1 for _ in rows)
                num_predictions = position - (prediction is None) + sum(1 for _ in predicted)
                raise self._count_error(num_rows, num_predictions)
            example = row[0]
            self._check_position(example, prediction)
            yield example, prediction

    def _noting_first(self, predicted: Iterator[PredictedLabel]) -> Iterator[PredictedLabel]:
        """Yield the predictions; store the labels of the first ones, for messages."""
        for prediction in predicted:
            if len(self.first_labels) < NUM_SHOWN:
                self.first_labels.append(prediction.label)
            yield prediction

    def _count_error(self, num_rows: int, num_predictions: int) -> InputError:
        """Build the error about files with different numbers of rows and predictions."""
        sentences = [
            f"{self.predictions}: {count_noun(num_predictions, 'prediction')}, but {self.gold} has "
            f"{count_noun(num_rows, 'row')}."
        ]
        if self.first_labels:
            shown = ", ".join(f"'{shorten_cell(label)}'" for label in self.first_labels)
            sentences.append(f"The predictions begin with {shown}.")
        if num_predictions == num_rows + 1:
            sentences.append("If the first of them is a header, remove it.")
        return InputError(" ".join([*sentences, "Give one for each row, in the same order."]))

    def _check_position(self, example: Gold, prediction: PredictedLabel) -> None:
        """Check that an example and the prediction at its position belong together.

        Raises:
            InputError: the prediction has the line or the text of another example.
        """
        name = f"{self.predictions}: prediction {prediction.ordinal:,}"
        if prediction.row not in (0, example.row):  # 0: the file names no lines
            raise InputError(
                f"{name} is for line {prediction.row:,}, but {self.gold} has line "
                f"{example.row:,} in its place. Score predictions of the same file."
            )
        if self._has_other_text(example, prediction):
            raise InputError(
                f"{name} is for '{shorten_cell(prediction.text)}', but {self.gold} has "
                f"'{shorten_cell(example.text)}' in its place. Give the predictions in the order "
                "of the rows. If they are in that order, remove the column "
                f"'{self.text_column}'."
            )

    def _has_other_text(self, example: Gold, prediction: PredictedLabel) -> bool:
        """Return whether both files have a text at this place, and the texts differ."""
        text = example.text
        return bool(text and prediction.text) and _text_key(text) != _text_key(prediction.text)

    def _id_of(self, prediction: PredictedLabel) -> str:
        return prediction.ids.get(self.id_column or "", "")

    def _pairs_by_id(
        self,
        rows: Sequence[tuple[Gold, SourceRow]],
        predicted: Sequence[PredictedLabel],
        paired_ids: Sequence[str],
    ) -> Iterator[tuple[Gold, PredictedLabel]]:
        """Yield the pairs of the rest of both files; rows with `paired_ids` are already paired."""
        column = self.id_column or ""
        gold_ids = [row_ids(row.columns, row.values).get(column, "") for _, row in rows]
        predicted_ids = [self._id_of(prediction) for prediction in predicted]
        self._check_ids([*paired_ids, *gold_ids], [*paired_ids, *predicted_ids])
        warn_once(
            f"{self.predictions}: the predictions are not in the order of the rows of "
            f"{self.gold}, so each is scored with the row of the same '{column}'."
        )
        by_id = dict(zip(predicted_ids, predicted, strict=True))
        for (example, _), id_ in zip(rows, gold_ids, strict=True):
            prediction = by_id[id_]
            if self._has_other_text(example, prediction):
                raise InputError(
                    f"{self.predictions}: prediction {prediction.ordinal:,}, with the {column} "
                    f"'{id_}', is for '{shorten_cell(prediction.text)}', but {self.gold} has "
                    f"'{shorten_cell(example.text)}' there. Score predictions of the same file. "
                    f"If they are in the order of its rows, remove the column '{column}'."
                )
            yield example, prediction

    def _check_ids(self, gold_ids: Sequence[str], predicted_ids: Sequence[str]) -> None:
        """Check that each id occurs once in each file.

        Raises:
            InputError: an id is repeated or missing; the message gives the first such id and the
                number of all.
        """
        column = self.id_column
        advice = f"If the predictions are in the order of the rows, remove the column '{column}'."
        for path, ids in ((self.gold, gold_ids), (self.predictions, predicted_ids)):
            repeated = [id_ for id_, count in Counter(ids).items() if count > 1]
            if repeated and path == self.gold and len(gold_ids) != len(predicted_ids):
                # The column does not identify rows, so the error is about their numbers.
                raise self._count_error(len(gold_ids), len(predicted_ids))
            if repeated:
                raise InputError(
                    f"{path}: '{repeated[0]}' occurs more than once in the column '{column}', by "
                    "which predictions in another order are paired with rows. So do "
                    f"{len(repeated):,} of {count_noun(len(set(ids)), 'value')}. Give each row a "
                    f"value of its own. {advice}"
                )
        if missing := _without(gold_ids, predicted_ids):
            raise InputError(
                f"{self.predictions}: no prediction for {len(missing):,} of the "
                f"{count_noun(len(gold_ids), 'row')} of {self.gold}; the first of them has the "
                f"{column} '{missing[0]}'. Give one for each. {advice}"
            )
        unknown = _without(predicted_ids, gold_ids)
        if len(unknown) > self.reader.num_skipped:  # skipped rows may have had predictions
            raise InputError(
                f"{self.predictions}: no row of {self.gold} has the {column} of {len(unknown):,} "
                f"of the {count_noun(len(predicted_ids), 'prediction')}; the first of them has "
                f"'{unknown[0]}'. Remove them. {advice}"
            )


def _without(ids: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the ids that are not among `others`, in their order."""
    other_ids = set(others)
    return [id_ for id_ in ids if id_ not in other_ids]


def _text_key(text: str) -> str:
    """Return the letters and digits of the beginning of a text, which all file formats preserve."""
    return "".join(char for char in text[:1000] if char.isalnum()).casefold()
