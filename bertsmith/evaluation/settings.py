"""Settings for scoring files of predictions.

The docstrings of fields are the help texts of `bertsmith score`. Classes named Columns hold the
options for reading the files of one task.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_type_hints

from bertsmith.data.columns import ChoiceColumns, Columns, TagColumns
from bertsmith.data.tables import RowFormat
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.metrics.answers import ScoredLanguage

T = TypeVar("T")
ScoredTask = Literal["answer", "choose", "classify", "regress", "tag"]
AnyFormat = Literal["auto", RowFormat, "conll", "conllu", "text"]


@dataclass(frozen=True)
class AnswerScoring:
    """Options for scoring answers to questions."""

    no_answer_probs: Path | None = None
    """Probabilities that a question has no answer: a .json file with one object from each
    question's id to a number, or a .jsonl file of `bertsmith predict --out`. With them, the best
    thresholds are reported, too."""
    no_answer_threshold: float | None = None
    """Threshold of --no-answer-probs: if a question's number is above it, its answer counts as
    none. By default 1; a .jsonl file has none, because its answers have been decided already."""
    language: ScoredLanguage = "auto"
    """Language of answers: compare words as SQuAD does (en), or characters as CMRC 2018 does (zh).
    auto: zh if most of the right answers hold Chinese characters."""


@dataclass(frozen=True)
class ClassColumns(Columns):
    """Columns of texts with labels, one or several."""

    multi_label: bool = False
    """Multi-label: a text may have several labels, or none."""
    label_separator: str = ","
    """Separator between the labels of a text, with --multi-label. A JSON list needs none."""

    def __post_init__(self) -> None:
        if self.label_separator != "," and not self.multi_label:
            raise ConfigError(
                f"{option('label_separator', self.label_separator)} is read only with "
                f"{option('multi_label', True)}. Give that, too; or leave out "
                f"{option('label_separator')}, and a text has one label."
            )


@dataclass(frozen=True)
class ScoreOptions(ClassColumns, ChoiceColumns, TagColumns, AnswerScoring):
    """Options for reading and scoring the files of all tasks; a task has some of them."""

    text_column: str | None = None
    """Column of the text or prompt: its name, or its number counted from 1. Default: the first of
    the usual names (text, sentence, prompt, ...)."""
    label_column: str | None = None
    """Column of the right label: its name, number or key. With --multi-label, also several columns,
    each named after a label and with 1 or 0 in its cells: names or numbers with commas, or a range
    of numbers such as 3-8. Default: the first of the usual names (label, class, target, ...); for
    words the last column."""
    skip_incomplete: bool = False
    """Skip rows and sentences that are incomplete or cannot be read and count them, instead of
    stopping."""
    format: AnyFormat = "auto"  # type: ignore[assignment]
    """File format of the gold file, whatever its name says: csv, tsv, jsonl, json, parquet or xlsx;
    for words conll, conllu or jsonl. auto: by its name, for words also by its first lines."""

    def part(self, options: type[T]) -> T:
        """Return the options of one of this class's base classes, such as `TagColumns`.

        Raises:
            ConfigError: the class does not allow the file format.
        """
        # The formats of one task are fewer than those of the field `format` here.
        allowed = get_args(get_type_hints(options).get("format"))
        if allowed and self.format not in allowed:
            raise SettingError("format", self.format, allowed)
        return options(**{field.name: getattr(self, field.name) for field in fields(options)})  # type: ignore[arg-type]
