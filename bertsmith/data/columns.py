"""Options for reading the files of each task: its columns, the format, incomplete rows.

A task takes one of these classes, and its command has a flag for each field; the text below a field
is the help of its flag. The help shows fields that are `Advanced` only with --help-all.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, Literal

from bertsmith.data.label_schemes import Scheme
from bertsmith.data.tables import TableFormat
from bertsmith.errors import ConfigError, option
from bertsmith.system.compute import Advanced
from bertsmith.tokenization.words import WordRule

TagFormat = Literal["auto", "conll", "conllu", "jsonl", "json", "parquet", "text"]


@dataclass(frozen=True)
class Columns:
    """Columns of texts or pairs and of labels, and the treatment of incomplete rows."""

    text_column: str | None = None
    """Text column: its name, or its number counted from 1. Default: the first of the usual names
    (text, sentence, sentence1, review, ...)."""
    pair_column: str | None = None
    """Column of the second text, if each row is a pair of texts."""
    label_column: str | None = None
    """Label column. If a text can have several labels, also several columns, each named after a
    label and with 1 or 0 in its cells: names or numbers with commas, or a range of numbers such as
    3-8. Default: the first of the usual names (label, class, target, ...)."""
    header: Advanced[Literal["auto", "yes", "no"]] = "auto"
    """Header row: whether the first row of a csv, tsv or xlsx file names the columns. auto: yes,
    unless you give all columns by their numbers."""
    skip_incomplete: Advanced[bool] = False
    """Skip incomplete rows and count them, instead of stopping: those whose text or label is empty
    or missing, or that have another number of columns than the first row."""
    format: Advanced[TableFormat] = "auto"
    """File format, whatever the name says: csv, tsv, jsonl, json (a list of objects), parquet,
    xlsx (the first sheet of an Excel file) or txt (one text per line). auto: by the name."""
    delimiter: Advanced[str | None] = None
    """Separator between the columns of a csv or tsv file: one character such as ';', or tab.
    Default: a comma in csv, a tab in tsv."""


@dataclass(frozen=True)
class RelatedColumns:
    """Columns of texts that are compared with each other, and the treatment of incomplete rows."""

    text_column: str | None = None
    """Anchor column: its name, or its number counted from 1. Default: the first of the usual names
    (anchor, query, question, sentence1, ...)."""
    pair_column: str | None = None
    """Column of texts that belong to the anchors. Default: the first of the usual names (positive,
    answer, sentence2, ...)."""
    negative_columns: str | None = None
    """Columns of texts that do not belong to the anchors. Give names or numbers with commas; in a
    jsonl file also one key that holds a list. Each row may have any number of them. Default: the
    first of the usual names (negative, negatives, ...)."""
    label_column: str | None = None
    """Label column: a number that says how similar two texts are. Default: the first of the usual
    names (score, similarity, ...)."""
    header: Advanced[Literal["auto", "yes", "no"]] = "auto"
    """Header row: whether the first row of a csv, tsv or xlsx file names the columns. auto: yes,
    unless you give all columns by their numbers."""
    skip_incomplete: Advanced[bool] = False
    """Skip incomplete rows and count them, instead of stopping: those that lack a text or a score.
    """
    format: Advanced[TableFormat] = "auto"
    """File format, whatever the name says: csv, tsv, jsonl, json (a list of objects), parquet,
    xlsx (the first sheet of an Excel file). auto: by the name."""
    delimiter: Advanced[str | None] = None
    """Separator between the columns of a csv or tsv file: one character such as ';', or tab.
    Default: a comma in csv, a tab in tsv."""


@dataclass(frozen=True)
class ChoiceColumns:
    """Columns of prompts, choices and labels, and the treatment of incomplete rows."""

    text_column: str | None = None
    """Prompt column: its name, or its number counted from 1. Default: the first of the usual names
    (prompt, sent1, context, premise, question, ...)."""
    start_column: str | None = None
    """Column with the words that every choice begins with, or `none`. Default: sent2 (SWAG), or the
    column question if the prompt is another one, such as a passage."""
    choice_columns: str | None = None
    """Choice columns: names or numbers with commas, or a range of numbers such as 3-6; in a jsonl
    file also one key that holds a list. Default: the usual names (choices, ending0 to ending3,
    choice1, ...)."""
    label_column: str | None = None
    """Label column, which names the right choice: its number, or its letter (A is the first)."""
    first_label: Literal[0, 1] = 0
    """Number of the first choice in the label column."""
    header: Advanced[Literal["auto", "yes", "no"]] = "auto"
    """Header row: whether the first row of a csv, tsv or xlsx file names the columns. auto: yes,
    unless you give all columns by their numbers."""
    skip_incomplete: Advanced[bool] = False
    """Skip incomplete rows and count them, instead of stopping: those that lack the prompt, a
    choice or the label, have only one choice, or have the right one twice."""
    format: Advanced[TableFormat] = "auto"
    """File format, whatever the name says: csv, tsv, jsonl, json (a list of objects), parquet,
    xlsx (the first sheet of an Excel file). auto: by the name."""
    delimiter: Advanced[str | None] = None
    """Separator between the columns of a csv or tsv file: one character such as ';', or tab.
    Default: a comma in csv, a tab in tsv."""


@dataclass(frozen=True)
class TagColumns:
    """Columns of words and labels, and the treatment of incomplete sentences."""

    format: TagFormat = "auto"
    """File format: conll (a word a line, columns between tabs or spaces, an empty line after each
    sentence), conllu, jsonl ({"words": [...], "labels": [...]} or {"text": ..., "entities":
    [...]}), json (a list of such objects), parquet (such rows), text (one text per line, to
    predict). auto: by the file's name and its first lines.
    """
    word_column: str | None = None
    """Word column: its number counted from 1, name or key. Default: the first column; form in
    conllu."""
    label_column: str | None = None
    """Label column: its number, name or key. For texts with entities, the key of the list of
    entities. Default: the last column; upos in conllu; the key entities."""
    split: Advanced[WordRule | None] = None
    """Word splitting of running text: words (a punctuation mark or Chinese character is a word of
    its own), spaces (at white space alone), characters. Default: as in training; in training
    itself, words."""
    scheme: Scheme | None = None
    """Label scheme. plain: each label stands for one word, as parts of speech do. Default: detected
    from the labels."""
    repair: Advanced[bool] = False
    """Repair label sequences that break their scheme, in files and in predictions: a label that
    does not continue an entity begins one. Such sequences are counted in any case."""
    strict: Advanced[bool] = False
    """Strict scoring: count only entities whose labels follow the scheme, as seqeval's strict mode
    does. In IOB1, a B that stands not directly behind an entity of its type is wrong: the whole
    entity is left out, where seqeval keeps the words after the B. Default: a label that does not
    continue an entity begins one, as in conlleval."""
    skip_incomplete: Advanced[bool] = False
    """Skip sentences with a row that does not fit and count them, instead of stopping."""


@dataclass(frozen=True)
class QuestionColumns:
    """Options for reading a file of questions: there are none."""


@dataclass(frozen=True)
class TranslationColumns:
    """Columns of sources and targets, and the treatment of incomplete rows."""

    source_column: str | None = None
    """Column of the texts that are read: its name, or its number counted from 1. Default: the first
    of the usual names (source, src, input, text, ...)."""
    target_column: str | None = None
    """Column of the texts that are to be written. Default: the first of the usual names (target,
    tgt, output, translation, summary, ...)."""
    header: Advanced[Literal["auto", "yes", "no"]] = "auto"
    """Header row: whether the first row of a csv, tsv or xlsx file names the columns. auto: yes,
    unless you give all columns by their numbers."""
    skip_incomplete: Advanced[bool] = False
    """Skip incomplete rows and count them, instead of stopping: those that lack a source or a
    target."""
    format: Advanced[TableFormat] = "auto"
    """File format, whatever the name says: csv, tsv, jsonl, json (a list of objects), parquet,
    xlsx (the first sheet of an Excel file). auto: by the name."""
    delimiter: Advanced[str | None] = None
    """Separator between the columns of a csv or tsv file: one character such as ';', or tab.
    Default: a comma in csv, a tab in tsv."""


def changed_options(columns: Any) -> list[str]:
    """List the options of one of the classes above that do not have their default values."""
    return [each.name for each in fields(columns) if getattr(columns, each.name) != each.default]


def check_needs_no_data(columns: Any, **others: object) -> None:
    """Check that no options for reading a file are set, since no file is given.

    Args:
        columns: an instance of one of the classes above; None if the task has none.
        others: values of further options by their names; None if they are not given.

    Raises:
        ConfigError: an option is set; the message names it.
    """
    names = [name for name, value in others.items() if value is not None]
    if columns is not None:
        names += changed_options(columns)
    if names:
        raise ConfigError(
            f"{option(names[0])}: it says how the file of {option('data')} is read, which is not "
            f"given. Give {option('data')}, or leave it out."
        )


def check_needs_no_file(columns: Any, applied: Collection[str]) -> None:
    """Check that no options for reading a file are set, since texts are given in its place.

    Args:
        columns: an instance of one of the classes above.
        applied: names of options that the task applies to texts, too.

    Raises:
        ConfigError: another option is set; the message names it.
    """
    names = [name for name in changed_options(columns) if name not in applied]
    if names:
        raise ConfigError(
            f"{option(names[0])}: it says how {option('file')} is read, which is not given. Give "
            f"{option('file')}, or leave it out."
        )
