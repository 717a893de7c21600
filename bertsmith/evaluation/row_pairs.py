"""Pair the rows of a gold file with their predictions: by their ids, or else by their order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Generic, TypeVar

from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.predictions import PREDICTED_LABEL_COLUMNS, PredictedLabel, read_labels
from bertsmith.data.records import RecordReader, SourceRow
from bertsmith.data.row_ids import ID_COLUMNS, row_ids
from bertsmith.data.tagged_checks import shorten_cell
from bertsmith.errors import InputError, warn_once
from bertsmith.system.counts import count_noun

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

    If both files have a column of ids of the same name (see `row_ids`), an example and its
    prediction have the same id. Otherwise they have the same position. From the first row on whose
    ids differ, both files are held in memory.

    Args:
        columns: columns that may hold predictions; see `read_labels`.
        several: whether a prediction may have several labels; see `read_labels`.

    Raises:
        InputError: a row has no prediction or several, or a prediction is for another row or text.
    """
    rows = reader.with_rows()
    rows = chain(list(islice(rows, 1)), rows)  # now the reader knows its columns
    text_names = reader.names.get("text", ())
    text_column = text_names[0] if len(text_names) == 1 else None
    guesses = read_labels(
        predictions,
        columns=columns,
        several=several,
        delimiter=reader.options.delimiter,
        text_column=text_column,
    )
    pairing = _Pairing(gold, predictions, reader, text_column)
    return pairing.pairs(rows, guesses, taken=set(chain(*reader.names.values())))


@dataclass
class _Pairing(Generic[Gold]):
    gold: Path
    predictions: Path
    reader: RecordReader[Gold]
    text_column: str | None
    id_column: str | None = None

    def pairs(
        self,
        rows: Iterator[tuple[Gold, SourceRow]],
        guesses: Iterator[PredictedLabel],
        taken: set[str],
    ) -> Iterator[tuple[Gold, PredictedLabel]]:
        """Yield the pairs by position, as long as the ids of both files are equal."""
        seen: list[str] = []  # ids of both files so far
        for position, (row, prediction) in enumerate(zip_longest(rows, guesses), start=1):
            gold_ids = row_ids(*row[1]) if row else {}
            if position == 1 and prediction is not None:
                shared = gold_ids.keys() & prediction.ids.keys() - {
                    x.strip().lower() for x in taken
                }
                self.id_column = next((name for name in ID_COLUMNS if name in shared), None)
            if self.id_column is not None:
                gold_id = gold_ids.get(self.id_column, "")
                if row is None or prediction is None or gold_id != self._id_of(prediction):
                    rest = list(chain([row] if row else [], rows))
                    rest_guesses = list(chain([prediction] if prediction else [], guesses))
                    yield from self._pairs_by_id(rest, rest_guesses, seen)
                    return
                seen.append(gold_id)
            if row is None or prediction is None:
                num_rows = position - (row is None) + sum(1 for _ in rows)
                num_guesses = position - (prediction is None) + sum(1 for _ in guesses)
                raise self._other_count(num_rows, num_guesses)
            example = row[0]
            self._check_position(example, prediction)
            yield example, prediction

    def _other_count(self, num_rows: int, num_guesses: int) -> InputError:
        return InputError(
            f"{self.predictions}: {count_noun(num_guesses, 'prediction')}, but {self.gold} has "
            f"{count_noun(num_rows, 'row')}. Give one for each row, in the same order."
        )

    def _check_position(self, example: Gold, prediction: PredictedLabel) -> None:
        name = f"{self.predictions}: prediction {prediction.ordinal:,}"
        if prediction.row not in (0, example.row):
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
        text = example.text
        return bool(text and prediction.text) and _text_key(text) != _text_key(prediction.text)

    def _id_of(self, prediction: PredictedLabel) -> str:
        return prediction.ids.get(self.id_column or "", "")

    def _pairs_by_id(
        self,
        rows: Sequence[tuple[Gold, SourceRow]],
        guesses: Sequence[PredictedLabel],
        seen: Sequence[str],
    ) -> Iterator[tuple[Gold, PredictedLabel]]:
        """Yield the pairs of the rest of both files, whose `seen` ids were paired by position."""
        column = self.id_column or ""
        gold_ids = [row_ids(*row).get(column, "") for _, row in rows]
        guess_ids = [self._id_of(prediction) for prediction in guesses]
        self._check_ids([*seen, *gold_ids], [*seen, *guess_ids])
        warn_once(
            f"{self.predictions}: the predictions are not in the order of the rows of "
            f"{self.gold}, so each is scored with the row of the same '{column}'."
        )
        by_id = dict(zip(guess_ids, guesses, strict=True))
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

    def _check_ids(self, gold_ids: Sequence[str], guess_ids: Sequence[str]) -> None:
        """Check that each id stands once in each file.

        Raises:
            InputError: one does not; names the first, and how many there are.
        """
        column = self.id_column
        advice = f"If the predictions are in the order of the rows, remove the column '{column}'."
        for path, ids in ((self.gold, gold_ids), (self.predictions, guess_ids)):
            doubled = [id_ for id_, count in Counter(ids).items() if count > 1]
            if doubled and path == self.gold and len(gold_ids) != len(guess_ids):
                raise self._other_count(len(gold_ids), len(guess_ids))  # it holds no ids of rows
            if doubled:
                raise InputError(
                    f"{path}: '{doubled[0]}' stands more than once in the column '{column}', by "
                    f"which predictions in another order are paired with rows; {len(doubled):,} of "
                    f"{count_noun(len(set(ids)), 'value')} do. Give each row its own. {advice}"
                )
        if lacking := _without(gold_ids, guess_ids):
            raise InputError(
                f"{self.predictions}: no prediction for {len(lacking):,} of the "
                f"{count_noun(len(gold_ids), 'row')} of {self.gold}; the first of them has the "
                f"{column} '{lacking[0]}'. Give one for each. {advice}"
            )
        unknown = _without(guess_ids, gold_ids)
        if len(unknown) > self.reader.num_skipped:  # rows that were skipped may have a prediction
            raise InputError(
                f"{self.predictions}: no row of {self.gold} has the {column} of {len(unknown):,} "
                f"of the {count_noun(len(guess_ids), 'prediction')}; the first of them has "
                f"'{unknown[0]}'. Remove them. {advice}"
            )


def _without(ids: Iterable[str], others: Iterable[str]) -> list[str]:
    known = set(others)
    return [id_ for id_ in ids if id_ not in known]


def _text_key(text: str) -> str:
    """Return the letters and digits of the beginning of a text, which no file format changes."""
    return "".join(char for char in text[:1000] if char.isalnum()).casefold()
