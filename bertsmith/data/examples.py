"""Read labelled examples from a table, JSON objects or rows in memory, in their order.

A label stays the string that it is in the file, so `1`, `positive` and `not_entailment` are treated
alike. White space at the ends of labels in files is removed, with a warning. A row without a text
or a label is an error, or is skipped and counted.

A `ColumnSpec` describes a column that is looked for: here that of the text, of the second text of a
pair, and of the label.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.data.column_specs import ColumnSpec, lowered
from bertsmith.data.columns import Columns
from bertsmith.data.incomplete_rows import IncompleteRowError
from bertsmith.data.parquet_classes import read_class_names
from bertsmith.data.parquet_files import parquet_schema
from bertsmith.data.records import RecordReader
from bertsmith.data.row_texts import Record
from bertsmith.data.table_rows import classes_stay_numbers
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import InputError, option, warn_once

# The usual names of the columns of a text and of a second text, in lower case. The first match
# wins, and a pair matches only if both columns are there.
TEXT_COLUMNS: tuple[tuple[str, str | None], ...] = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text1", "text2"),
    ("text", "text_pair"),
    ("text", "pair"),
    ("#1 string", "#2 string"),
    ("text", None),
    ("sentence", None),
    ("text_a", None),
    ("review", None),
    ("content", None),
    ("comment", None),
    ("comment_text", None),
    ("document", None),
    # After the single texts: a table may have a question and its passage beside a column `text`,
    # and then `text` is meant.
    ("question", "passage"),
    ("question", None),
)
USUAL_NAMES = {name for pair in TEXT_COLUMNS for name in pair if name}
LABEL_COLUMNS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "quality",
    "score",
    "rating",
)

LIST_SEPARATOR = "\x1f"
"""End of each label in a JSON list of labels: ASCII's unit separator, which no label has."""

FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
"""Values of a column that says whether a text has the label after which the column is named."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text or pair of texts, and its label.

    `row` is the number of its row or line in the file, from 1, or 0 if it was not read from one;
    `to_json` names it `line`.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    row: int = 0

    @property
    def content(self) -> tuple[str, str | None]:
        """The input of a model; examples with equal inputs are duplicates."""
        return self.text, self.pair

    def one_line(self) -> list[str]:
        """Return the texts, with each run of white space replaced by one space."""
        return [" ".join(text.split()) for text in (self.text, self.pair) if text is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the line and the texts, as they are written beside a prediction."""
        pair = {} if self.pair is None else {"pair": self.pair}
        return {"line": self.row, "text": self.text, **pair}


class ExampleReader(RecordReader[Example]):
    """Lazy reader of texts or pairs, with labels.

    Args:
        source: `.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet`, `.xlsx` or `.txt` (one text per
            line), plain or `.gz/.xz/.zst`; `STANDARD_INPUT`; or rows in memory.
        labelled: whether to look for a label column.
        is_multi_label: whether texts can have any number of labels, so that a label may be empty, a
            list in JSON, or in several columns.
        pairs: True if each row must have a second text. False: a second text is refused unless the
            user named its column, as it is not clear which text is meant. None: rows may have one.
        trained: the columns that the model was trained on.
        needs_text: whether a row must have a text; if only labels are compared, it need not.
        compared_labels: labels with which the labels of the file are compared, such as the model's.
            They decide how numbered classes of a Parquet file that `datasets` wrote are read: as
            numbers if `compared_labels` are numbers, otherwise by their names. None: as numbers.
    """

    def __init__(
        self,
        source: ExampleSource,
        columns: Columns | None = None,
        *,
        labelled: bool = True,
        is_multi_label: bool = False,
        pairs: bool | None = None,
        trained: TrainingColumns | None = None,
        needs_text: bool = True,
        compared_labels: Iterable[str] | None = None,
    ) -> None:
        self.needs_text = needs_text
        self.trained = trained or TrainingColumns()
        self.columns = columns or Columns()
        self.labelled = labelled
        self.is_multi_label = is_multi_label
        self.pairs = pairs
        self.is_file = isinstance(source, Path)
        self.compared_labels = compared_labels
        # Labels with white space at their ends, each with the number of its first row.
        self._stripped: dict[str, int] = {}
        lacking = ""  # what a file of plain lines would lack, for an error
        if labelled:
            lacking = "labels"
        elif pairs:
            lacking = "pairs, which the model was trained on"
        super().__init__(
            source,
            self.columns,
            self._build_specs,
            self._build_example,
            lines_lack=lacking,
            trained=self.trained,
        )

    def read(self, limit: int | None = None) -> list[Example]:
        """Read at most `limit` examples; refuse a first row that looks like a header.

        Raises:
            InputError: the first row looks like a header, or the source cannot be read.
            ConfigError: `limit` is not above 0.
        """
        examples = super().read(limit)
        if self.labelled and not self.is_multi_label:
            first, *others = examples  # one or more: without any, `super().read` raises an error
            comes_again = any(example.label == first.label for example in others)
            check_header(self, first, len(examples), comes_again=comes_again)
        if self._stripped:
            label, row = next(iter(self._stripped.items()))  # one warning for all such labels
            warn_once(
                f"{self.locate_row(row)}: the label '{label}' is read as '{label.strip()}': white "
                "space at the ends of a file's labels does not count."
            )
        return examples

    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Return the names of a Parquet file's numbered classes, by column.

        The result is empty if the numbers are to stay numbers; see `compared_labels`.
        """
        if self.compared_labels is None or not isinstance(self.source, Path):
            return {}
        names = read_class_names(self.source)
        columns = parquet_schema(self.source).names if names else ()
        label_column = self.columns.label_column
        stay = classes_stay_numbers(names, columns, self.compared_labels, label_column)
        return {} if stay else names

    def _build_example(self, row: int, record: Record) -> Example:
        # By the name of each spec, `record` has a tuple of texts, and `names` a tuple of columns.
        (text,) = record.get("text") or ("",)
        (pair,) = record.get("second text") or (None,)
        columns = self.columns
        if pair is not None and self.pairs is False and columns.pair_column is None:
            (first,), (second,) = self.names["text"], self.names["second text"]
            raise InputError(
                f"{self.source_name}: two texts in each row, '{first}' and '{second}', where one "
                f"is expected. Name the right one with {option('text_column')}; or, if pairs are "
                f"meant, the second with {option('pair_column')}."
            )
        # A text that is the name of its column: perhaps the row is a header that comes again.
        is_column_name = (
            self.is_table and self.has_header and record.get("text") == self.names.get("text")
        )
        if text and is_column_name and self.labelled and record["label"] == self.names["label"]:
            problem = f"'{text}' and '{self.names['label'][0]}' are the names of the columns again"
            raise self.incomplete_error(row, problem, "Remove this row, as of two files joined.")
        is_guessed = columns.header == "auto" and columns.text_column is None
        if is_guessed and text and is_column_name:
            raise InputError(
                f"{self.locate_row(row)}: the text '{text}' is also in the first row, which was "
                "read as the names of the columns. If it names them, pass "
                f"{option('header', 'yes')}; if it is a row like the others, "
                f"{option('header', 'no')} {option('text_column', placeholder='N')}."
            )
        # Where each text has one label, `read` judges the first row by its label. Without labels,
        # or with a set of labels for each text, the text alone is judged.
        if row == 1 and text.lower() in USUAL_NAMES and (self.is_multi_label or not self.labelled):
            self._refuse_header(text)
        label = self._read_label(row, record["label"]) if self.labelled else None
        return Example(text, pair, label, row)

    def _read_label_set(self, labels: list[str]) -> list[str]:
        """Join a JSON list of labels to one text, as `as_label_set` does."""
        return as_label_set(map(str.strip, labels) if self.is_file else labels)

    def _refuse_header(self, text: str) -> None:
        """Refuse a first text that is a usual name of a column, if columns are chosen by number."""
        if self.is_table and self.columns.header == "auto" and not self.has_header:
            raise InputError(
                f"{self.locate_row(1)}: the text of this first row, '{text}', is a usual name of a "
                f"column. If the row names the columns, pass {option('header', 'yes')}; if not, "
                f"{option('header', 'no')}."
            )

    def _read_label(self, row: int, cells: tuple[str, ...]) -> str:
        """Read a label from its column, or a set of labels from a column of 1 and 0 for each."""
        names = self.names["label"]
        if len(names) == 1:
            label = "".join(cells)
            if self.is_file and not label.endswith(LIST_SEPARATOR):  # which `strip` would remove
                label = self._strip(row, label)
            self._check_label_set(row, label)
            return label
        header = ""
        if not self.has_header:
            header = f", or pass {option('header', 'yes')} if it names the columns"
        advice = (
            "; allowed are 1 and 0, or true and false. Fix the row, or choose other columns with "
            f"{option('label_column')}{header}."
        )
        # `cells` lacks the empty ones, so it is not known which of the columns are empty.
        if len(cells) < len(names):
            raise IncompleteRowError(f"{self.locate_row(row)}: a column of labels is empty{advice}")
        flags = {name: text.strip().lower() for name, text in zip(names, cells, strict=True)}
        for name, text in flags.items():
            if text not in FLAGS:
                raise InputError(f"{self.locate_row(row)}: '{name}' is '{text}'{advice}")
        return as_label_set(name.strip() for name, text in flags.items() if FLAGS[text])[0]

    def _strip(self, row: int, label: str) -> str:
        """Remove white space at a label's ends; remember the first row of a label that had some."""
        stripped = label.strip()
        if stripped != label:
            self._stripped.setdefault(label, row)
        return stripped

    def _check_label_set(self, row: int, label: str) -> None:
        """Refuse a list of flags such as `[1, 0, 0]`, and a list that is written as one text."""
        labels = label.split(LIST_SEPARATOR)[:-1]
        problem = ""
        if len(set(labels)) < len(labels) and FLAGS.keys() >= set(labels):
            problem = "several flags, 1 and 0; give the names of the labels that the text has"
        elif self.is_multi_label and label.startswith(("['", '["')):
            problem = "a list written as text; write labels as in sport,news, or use a .jsonl file"
        if problem:
            raise InputError(f"{self.locate_row(row)}: the label is {problem}.")

    def _build_specs(self, column_names: Sequence[str]) -> list[ColumnSpec]:
        """Describe the columns to read in a table with these names, which are in lower case."""
        columns = self.columns
        usual_text, usual_pair = self._usual_names(column_names)
        # With `skip_incomplete`, `predict` skipped rows with an empty text, so these have no
        # prediction to compare with. They must be skipped here, too.
        may_lack_text = not self.needs_text and not columns.skip_incomplete
        return [
            ColumnSpec(
                "text", "text_column", columns.text_column, usual_text,
                is_optional=not self.needs_text, may_be_empty=may_lack_text,
                may_lack_key=may_lack_text,
            ),
            ColumnSpec(
                "second text", "pair_column", columns.pair_column, usual_pair,
                is_optional=not self.pairs,
                instead=f"name the only text with {option('text_column')}",
            ),
            ColumnSpec(
                "label", "label_column", columns.label_column, LABEL_COLUMNS,
                is_many=self.is_multi_label and columns.label_column is not None,
                may_be_empty=self.is_multi_label, scalars=(bool, int, float), is_label=True,
                read_list=self._read_label_set if self.is_multi_label else None,
                is_read=self.labelled,
            ),
        ]  # fmt: skip

    def _usual_names(self, column_names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the usual names of text and second text that are among the columns.

        Each is a tuple of one name or none. Both are empty if the user chose the column of the
        text, or if the text column of training is read.
        """
        present = (
            names
            for names in TEXT_COLUMNS
            if all(name is None or name in column_names for name in names)
        )
        text, pair = next(present, (None, None))
        trained = lowered(self.trained.names.get("text", ()))
        reads_trained_column = bool(trained) and set(trained) <= set(column_names)
        if not self.is_file and self.pairs is False and pair is not None:
            # A program that gives a second text expects that the model reads it. So the text must
            # not be ignored: `_build_example` refuses it.
            reads_trained_column = reads_trained_column and [text] != trained
        if text is None or self.columns.text_column is not None or reads_trained_column:
            return (), ()
        return (text,), () if pair is None else (pair,)


def as_label_set(labels: Iterable[str]) -> list[str]:
    """Join several labels to one text, in which `LIST_SEPARATOR` follows each label.

    The result is a list of this one text, as `ColumnSpec.read_list` returns it.
    """
    return ["".join(label + LIST_SEPARATOR for label in labels)]


def are_pairs(examples: Iterable[Example]) -> bool:
    """Return whether any example has a second text."""
    return any(example.pair is not None for example in examples)


def example_noun(*, is_pair: bool | None) -> str:
    """Return the noun for an example in reports; `is_pair` is None if it is not known."""
    return "pair" if is_pair else "text"


def check_header(
    reader: ExampleReader, first: Example, num_examples: int, *, comes_again: bool
) -> None:
    """Refuse a first row whose label does not come again, as it probably names the columns.

    A number always counts as a label. So does any text if there are fewer than ten examples, since
    in a small file many labels occur only once.

    Raises:
        InputError: asks what the row is.
    """
    may_be_header = reader.is_table and reader.columns.header == "auto" and not reader.has_header
    if not may_be_header or num_examples < 10 or comes_again:
        return
    if not _is_number(first.label or ""):
        raise InputError(
            f"{reader.locate_row(first.row)}: the label '{first.label}' occurs in this first row "
            f"only. If the row names the columns, pass {option('header', 'yes')}; if not, "
            f"{option('header', 'no')}."
        )


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
