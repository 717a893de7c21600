"""`bertsmith predict`: a fine-tuned model and texts → its predictions."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.commands.first_word import ALL_COLUMNS
from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.settings.predict import Settings
from bertsmith.commands.task_flags import load_with_flags, parse_for_folder
from bertsmith.data.columns import check_needs_no_file
from bertsmith.data.examples import example_noun
from bertsmith.data.excel_files import import_openpyxl
from bertsmith.data.reader import Reader
from bertsmith.data.records import RecordReader
from bertsmith.data.standard_input import must_wait_for_input
from bertsmith.data.table_rows import is_file_name
from bertsmith.data.table_writer import TABLE_ENDINGS
from bertsmith.data.tables import check_delimiter, check_has_columns
from bertsmith.data.tagged_files import check_has_word_column
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import ConfigError, InputError
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.counts import count_noun, line_with_count
from bertsmith.system.escaping import make_console
from bertsmith.system.output_files import lock_outputs
from bertsmith.system.progress import only_bar
from bertsmith.tasks.page import PredictionRow, write_predictions_page
from bertsmith.tasks.prediction_files import PendingRows, endings, write_predictions
from bertsmith.tasks.task import Task

MAX_PAGE_ROWS = 1000
"""Largest number of predictions on a page."""


def main(words: Sequence[str], line: Sequence[str]) -> None:
    """Predict texts or the examples of a file; print or write the predictions.

    Args:
        words: the words after `bertsmith predict`.
        line: all words of the command line, from `bertsmith` on.
    """
    settings, folder = parse_for_folder(Settings, words, " ".join(line[:2]))
    if bool(settings.text) == bool(settings.file):
        if settings.text:
            raise ConfigError("Give either texts or --file, not both.")
        raise ConfigError("Nothing to predict: give texts in quotes, --file FILE, or -.")
    if "-" in settings.text and len(settings.text) > 1:
        raise ConfigError("- reads texts from standard input. Give either - or texts, not both.")
    _check_no_file(settings.text)
    # These files are locked, and refused if one is the input or belongs to the model.
    outputs = {"--out": settings.out, "--page": settings.page}
    with lock_outputs(outputs, settings.file, settings.model):
        _predict(settings, folder)


def _predict(settings: Settings, folder: ModelFolder | None) -> None:
    """Predict, example by example; then write the page, and print warnings and totals.

    `folder` is that of the model; its predictor's definition is the task, with the task's labels.
    """
    # For the name "-", in which `find_model` sees no model, `folder` is None; loading refuses it.
    predictor = load_with_flags(settings, folder or settings.model)
    task = predictor.definition
    if settings.out is not None:
        _check_ending(settings.out, task)
    source = _examples_to_predict(task, settings)
    # Keeps the rows of a table until they are written with their predictions.
    source_rows = PendingRows(source) if isinstance(source, RecordReader) and settings.out else None
    totals = _Totals()
    rows: list[PredictionRow] = []
    with only_bar("predicting", partial(_count, source)) as advance:
        predictions = predictor.iter_predictions(
            source if source_rows is None else source_rows,
            # The texts so far are predicted at once while the next one has not been written yet.
            is_waiting=must_wait_for_input if settings.text == ("-",) else None,
        )
        pairs = totals.count(predictions, advance)
        if settings.page is not None:
            pairs = _collect_rows(pairs, rows)
        try:
            report = _write_or_print(task, settings, pairs, totals, source_rows)
        except BrokenPipeError:
            # The program that read the lines has ended, but the page still needs the other texts.
            if settings.page is not None:
                for _ in pairs:
                    pass
            _write_page(settings, task, rows, totals)
            raise
    _write_page(settings, task, rows, totals)
    totals.num_skipped = getattr(source, "num_skipped", 0)
    totals.num_empty = getattr(source, "num_empty", 0)
    unknown_rate = predictor.unknown_tokens.rate
    warn_unknown(unknown_rate, "the texts" if settings.file is None else settings.file)
    if settings.json:
        report |= {**totals.to_json(), "unknown_rate": unknown_rate}
        print_json(report, allow_nan=False)
    for note in totals.notes():
        print_note(f"{note}.")
    if totals.num_texts and totals.num_without_entity == totals.num_texts:
        print_note("The model found no entity in these texts.")


def _write_page(
    settings: Settings, task: Task[Any, Any], rows: Sequence[PredictionRow], totals: "_Totals"
) -> None:
    """Write the page, if --page names one."""
    if settings.page is not None:
        write_predictions_page(
            settings.page, str(settings.model), task.titles, rows, totals.num_texts
        )


def _collect_rows(
    pairs: Iterable[tuple[Any, Any]], rows: list[PredictionRow]
) -> Iterator[tuple[Any, Any]]:
    """Yield examples with their predictions; add the first `MAX_PAGE_ROWS` to `rows`."""
    for example, prediction in pairs:
        if len(rows) < MAX_PAGE_ROWS:
            rows.append(PredictionRow.of(example, prediction))
        yield example, prediction


def _check_no_file(words: Sequence[str]) -> None:
    """Refuse a text that is the path of a file, since the model would read the path itself.

    Raises:
        ConfigError: a word is the path of a file.
    """
    for word in words:
        if is_file_name(word):
            raise ConfigError(
                f"text: '{word}' is a file. To predict the texts in it, pass --file "
                f"{shlex.quote(word)}. If it is meant as a text, pass it by standard input (-)."
            )


def _count(source: Any) -> int | None:
    """Count the rows of a file, for the progress bar; None for texts of the command line."""
    return source.count() if isinstance(source, Reader) else None


def _check_ending(path: Path, task: Task[Any, Any]) -> None:
    """Refuse a file name whose ending is not one of an output format."""
    ending = path.suffix.lower()
    allowed = endings(task)
    if ending in allowed:
        if ending == ".xlsx":
            import_openpyxl(path)  # refused before anything is computed
        return
    names = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    if ending in TABLE_ENDINGS:
        raise ConfigError(
            f"--out: '{path}' would be a table, but this model labels the words of each text, "
            f"which do not fit into one. Choose a name that ends in {names}."
        )
    raise ConfigError(
        f"--out: found '{path}'; allowed for this model are names that end in {names}."
    )


@dataclass
class _Totals:
    """Counts of predictions, updated as they are made, and whether the examples are pairs."""

    num_texts: int = 0
    are_pairs: bool = False
    num_windowed: int = 0
    num_truncated: int = 0
    num_skipped: int = 0
    num_empty: int = 0
    num_without_entity: int = 0

    def count(
        self, pairs: Iterable[tuple[Any, Any]], advance: Callable[[], object]
    ) -> Iterator[tuple[Any, Any]]:
        """Yield examples with their predictions; count each pair, and call `advance` for it."""
        for example, prediction in pairs:
            self.num_texts += 1
            self.are_pairs |= getattr(example, "pair", None) is not None
            advance()
            self.num_windowed += prediction.num_windows > 1
            self.num_truncated += prediction.is_truncated
            # A tagger's labels mark entities if they have a scheme such as IOB2, not if plain.
            if getattr(prediction, "scheme", "plain") != "plain":
                self.num_without_entity += not prediction.entities
            yield example, prediction

    def to_json(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if name != "are_pairs"}

    def notes(self) -> Iterator[str]:
        yield from ReadingCounts(
            num_truncated=self.num_truncated,
            num_windowed=self.num_windowed,
            num_skipped=self.num_skipped,
        ).notes(lacking="a text")
        yield from line_with_count(
            self.num_empty,
            "question or its passage is empty: there is nothing to find",
            "questions or their passages are empty: there is nothing to find",
        )


def _write_or_print(
    task: Task[Any, Any],
    settings: Settings,
    pairs: Iterator[tuple[Any, Any]],
    totals: _Totals,
    source_rows: PendingRows | None,
) -> dict[str, Any]:
    """Write or print all predictions; return the first keys of the JSON report.

    `pairs` are examples with their predictions. They are written to --out, printed as one JSON
    object, or else printed line by line.
    """
    if settings.out is not None:
        note = write_predictions(settings.out, task, pairs, source_rows)
        if note:
            print_note(f"{settings.out}: {note}")
        if not settings.json:
            noun = example_noun(is_pair=totals.are_pairs)
            print(f"{count_noun(totals.num_texts, noun)} → {settings.out}")
        return {"out": str(settings.out)}
    if settings.json:
        predictions = [
            {**example.to_json(), **prediction.to_json()} for example, prediction in pairs
        ]
        return {"model": str(settings.model), "predictions": predictions}
    console: Any = None  # rich takes 20 ms to import, which only lines with colours need
    is_awaited = settings.text == ("-",)  # perhaps by a program that then writes the next text
    for example, prediction in pairs:
        line = prediction.line(example)
        if console is None and not isinstance(line, str):
            console = make_console(soft_wrap=True, highlight=False)
        if isinstance(line, str) or not console.is_terminal:
            print(line, flush=is_awaited)  # a console would turn its tabs into spaces
        else:
            console.print(line)
    return {}


def decode_argument(word: str) -> str:
    """Decode a command-line word; U+FFFD replaces bytes that are not UTF-8."""
    return os.fsencode(word).decode("utf-8", "replace")


def _examples_to_predict(task: Task[Any, Any], settings: Settings) -> Iterable[Any]:
    """Return the examples of the command line's texts, or a reader of those in a file."""
    file = STANDARD_INPUT if settings.text == ("-",) else settings.file
    if file is None:
        # A task of the user may apply options of its own to texts, too.
        if type(settings.columns) in ALL_COLUMNS:
            check_needs_no_file(settings.columns, applied=("split", *task.kept_columns))
        return examples_of_texts(task, list(map(decode_argument, settings.text)))
    check_delimiter(settings.columns, file)
    check_has_columns(settings.columns, file)
    check_has_word_column(settings.columns, file)
    return task.reader(file, settings.columns, labelled=False)


def examples_of_texts(task: Task[Any, Any], texts: Sequence[str]) -> list[Any]:
    """Build examples from the texts of a command line.

    An example takes as many texts as the task needs: one, two for a pair, or all texts for a prompt
    with its choices.

    Raises:
        InputError: a text is empty, or there are too few or too many.
    """
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"text {number} is empty ('{text}'). Put each text in quotes.")
    size = task.texts_per_example  # None if one example takes all texts
    is_complete = len(texts) >= 3 if size is None else len(texts) % size == 0
    if not is_complete:
        were = "text was" if len(texts) == 1 else "texts were"
        raise InputError(
            f"This model reads a {' and its '.join(task.fields[:2])}, but {len(texts)} {were} "
            "given. Give them one after the other, each in quotes."
        )
    rows: list[Sequence[Any]] = [(texts[0], texts[1:])]
    if size is not None:
        rows = [texts[first : first + size] for first in range(0, len(texts), size)]
    return [
        task.example({**dict(zip(task.fields, row, strict=False)), "row": number})
        for number, row in enumerate(rows, start=1)
    ]
