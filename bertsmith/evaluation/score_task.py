"""Score a file of predictions by the task to which the gold file belongs.

The gold file has the right labels. If the user names no task, `find_task` finds it in the file.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from bertsmith.data.columns import ChoiceColumns, Columns, TagColumns
from bertsmith.data.examples import Example, ExampleReader
from bertsmith.data.labels import parse_number
from bertsmith.data.multiple_choice import ChoiceReader
from bertsmith.data.predictions import PredictedLabel, read_labels
from bertsmith.data.sources import ending_of
from bertsmith.data.squad import QuestionReader
from bertsmith.data.tables import table_format
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.text_files import STANDARD_INPUT, WITHOUT_LINES, check_is_file, iter_lines
from bertsmith.errors import BertsmithError, ConfigError, InputError, option
from bertsmith.evaluation.score import (
    score_answer_files,
    score_choice_files,
    score_class_files,
    score_number_files,
    score_tag_files,
)
from bertsmith.evaluation.settings import AnswerScoring, ClassColumns, ScoredTask, ScoreOptions

T = TypeVar("T")
LabelKind = Literal["whole number", "fraction", "name"]

SCORED_TASKS: dict[ScoredTask, tuple[type[Any], Callable[[Path, Path, Any], Any]]] = {
    "answer": (AnswerScoring, score_answer_files),
    "choose": (ChoiceColumns, score_choice_files),
    "classify": (ClassColumns, score_class_files),
    "regress": (Columns, score_number_files),
    "tag": (TagColumns, score_tag_files),
}
"""The class of options and the scoring function of each task."""

LABELS_SEEN = 1000
"""Number of labels that are read from each file to distinguish numbers from classes."""


def options_of_task(settings: ScoreOptions, task: ScoredTask, gold: Path) -> Any:
    """Return the options of a task, out of those of all tasks.

    Raises:
        ConfigError: an option of another task is given.
    """
    options_class, _ = SCORED_TASKS[task]
    names = {field.name for field in fields(options_class)}
    for field in fields(settings):  # a value that is not the default is the user's
        if field.name not in names and getattr(settings, field.name) != field.default:
            raise ConfigError(
                f"{option(field.name)}: {gold} is scored as {task}, which has no "
                f"such option. Leave it out, or give another {option('task')}."
            )
    return settings.part(options_class)


def score(task: ScoredTask, gold: Path, predictions: Path, options: ScoreOptions) -> Any:
    """Score predictions by a task's rules; return its report.

    Raises:
        ConfigError: an option of another task.
        InputError: a file cannot be read, or the files do not belong together.
    """
    _, score_files = SCORED_TASKS[task]
    return score_files(gold, predictions, options_of_task(options, task, gold))


def find_task(gold: Path, predictions: Path, options: ScoreOptions) -> ScoredTask:
    """Find the one task whose reader can read the gold file.

    A table with choices belongs to `choose`. Labels that are numbers are classes if all are whole
    in both files, and values of a regression if both files have fractions. They are also values
    if the predictions have a column for numbers alone, such as `value`.

    Raises:
        InputError: no task fits, or more than one; the message shows the first rows.
    """
    if gold == STANDARD_INPUT:
        raise InputError(f"{gold}: standard input can be read only once. Write it to a file.")
    check_is_file(gold)
    # Each task's reader is tried. `part` returns the options of one of the readers.
    is_multi_label = options.multi_label
    readers: dict[ScoredTask, Callable[[], Iterable[Any]]] = {
        "answer": lambda: QuestionReader(gold, needs_offsets=False),
        "tag": lambda: TaggedReader(gold, options.part(TagColumns)),
        "choose": lambda: ChoiceReader(gold, options.part(ChoiceColumns), needs_prompt=False),
        "classify": lambda: ExampleReader(
            gold, options.part(Columns), is_multi_label=is_multi_label, needs_text=False
        ),
    }
    tasks = [task for task, reader in readers.items() if _can_read(reader)]
    if "tag" in tasks and ".tsv" in gold.suffixes and all(map(str.strip, iter_lines(gold))):
        # Labelled words have empty lines between their sentences. Without any, it is a table.
        tasks.remove("tag")
    if "choose" in tasks and "classify" in tasks:  # such a table has texts and labels, too
        tasks.remove("classify")
    if tasks == ["classify"] and not is_multi_label:
        tasks = _tasks_of_labels(gold, predictions, options.part(Columns))
    if len(tasks) == 1:
        return tasks[0]
    advice = f"Give {' or '.join(option('task', task) for task in tasks)}"
    if not tasks:
        advice = (
            f"Give {option('task')} ({', '.join(get_args(ScoredTask))}), and the columns to read"
        )
    problem = f"{gold}: fits {' and '.join(tasks) or 'no task'}. {advice}."
    if ending_of(gold) in WITHOUT_LINES:
        raise InputError(problem)
    shown = "\n".join(f"  {row.rstrip()[:100]}" for row in islice(iter_lines(gold), 3))
    raise InputError(f"{problem} The first rows:\n{shown}")


def _can_read(reader: Callable[[], Iterable[Any]]) -> bool:
    """Return whether the reader that this function opens can read a first example."""
    try:
        return any(True for _ in reader())
    except BertsmithError:
        return False


def _tasks_of_labels(gold: Path, predictions: Path, columns: Columns) -> list[ScoredTask]:
    """Return the tasks of a table's labels: classify, regress, or either.

    Raises:
        InputError: a file cannot be read, or the predictions are needed and are standard input.
    """
    gold_kinds = _label_kinds(ExampleReader(gold, columns, needs_text=False))
    if "name" in gold_kinds:
        return ["classify"]
    if predictions == STANDARD_INPUT:
        raise InputError(
            f"{predictions}: the labels of {gold} are numbers, so the task is found from the "
            "predictions, too, but standard input can be read only once. Give "
            f"{option('task', 'classify')} or {option('task', 'regress')}."
        )
    is_table = table_format(predictions) != "txt"  # else a label on each line
    delimiter = columns.delimiter
    names = ["predicted_value", "value"]
    if is_table and _can_read(lambda: read_labels(predictions, columns=names, delimiter=delimiter)):
        return ["regress"]  # `predict` writes columns of these names only for numbers
    has_fractions = "fraction" in gold_kinds
    predicted_kinds = _label_kinds(read_labels(predictions, delimiter=delimiter))
    if has_fractions != ("fraction" in predicted_kinds):
        return ["classify", "regress"]
    return ["regress"] if has_fractions else ["classify"]


def _label_kinds(examples: Iterable[Example | PredictedLabel]) -> set[LabelKind]:
    """Return the kinds of the first `LABELS_SEEN` labels."""
    return {_label_kind(str(example.label)) for example in islice(examples, LABELS_SEEN)}


def _label_kind(label: str) -> LabelKind:
    """Return whether a label is a number, and which, or a name.

    >>> [_label_kind(label) for label in ("3", "3.0", "3.8", "sports", "1_000")]
    ['whole number', 'whole number', 'fraction', 'name', 'name']
    """
    try:
        value = parse_number(label, what="")  # for the message, which is not shown
    except InputError:
        return "name"
    return "whole number" if value.is_integer() else "fraction"
