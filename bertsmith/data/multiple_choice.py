"""Read multiple-choice examples from a table, JSON objects or rows in memory.

Rows may have different numbers of choices, because the model scores each choice by itself, beside
the prompt. In a csv, tsv or xlsx file, empty cells at the end mean that a row has fewer.
"""

from dataclasses import dataclass
from typing import Any

from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.columns import ChoiceColumns
from bertsmith.data.records import RecordReader
from bertsmith.data.row_texts import Record
from bertsmith.data.table_rows import with_class_numbers
from bertsmith.data.tables import whole_number
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import InputError, option

PROMPT_COLUMNS = (
    "prompt", "sent1", "startphrase", "context", "ctx", "article", "passage", "premise", "stem",
    "text", "sentence", "question", "question_stem", "goal",
)  # fmt: skip
"""Usual names of the prompt. Names of texts come before those of questions: where a table has a
text and a question about it, the text is the prompt, and the question begins each choice."""
START_COLUMNS = ("sent2", "question")
"""Usual names of the words with which every choice begins."""
CHOICE_COLUMNS = (
    "choices",
    "choice",
    "endings",
    "ending",
    "options",
    "option",
    "answers",
    "answer",
)
RIGHT_CHOICE_COLUMNS = ("label", "gold", "answer_key", "answerkey", "correct", "target", "answer")
"""Usual names of the label: the number or the letter of the right choice."""


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """Prompt, two or more choices, and the index of the right choice, from 0.

    `row` is the number of the example's row or line in the file, from 1; 0 if it is from no file.
    """

    text: str
    choices: tuple[str, ...]
    label: int | None = None
    row: int = 0

    @property
    def content(self) -> tuple[str, tuple[str, ...]]:
        """The input of a model; examples with equal inputs are duplicates."""
        return self.text, self.choices

    def to_json(self) -> dict[str, Any]:
        """Return the line and the texts, as they are written beside a prediction."""
        return {"line": self.row, "text": self.text, "choices": list(self.choices)}


class ChoiceReader(RecordReader[ChoiceExample]):
    """Lazy reader of multiple-choice examples.

    Args:
        source: as for `RecordReader`.
        labelled: whether to look for the right choice.
        trained: the columns that the model was trained on.
        needs_prompt: whether a row must have a prompt; if only labels are compared, it need not.
    """

    def __init__(
        self,
        source: ExampleSource,
        columns: ChoiceColumns | None = None,
        *,
        labelled: bool = True,
        trained: TrainingColumns | None = None,
        needs_prompt: bool = True,
    ) -> None:
        self.needs_prompt = needs_prompt
        self.columns = columns or ChoiceColumns()
        self.labelled = labelled
        specs = self._build_specs()
        super().__init__(
            # In tables of `datasets` the numbers of classes have names; here the numbers count.
            with_class_numbers(source),
            self.columns,
            lambda column_names: specs,
            self._build_example,
            trained=trained,
        )

    def _build_example(self, row: int, record: Record) -> ChoiceExample:
        # By the name of each spec, `record` has a tuple of texts; it is empty if a row has none.
        start = "".join(record.get("beginning of the choices", ())).strip()
        choices = tuple(f"{start} {text}" if start else text for text in record["choices"])
        if len(choices) < 2:
            raise self.incomplete_error(
                row,
                "found one choice",
                "Give two or more, in columns of their own or as a list; "
                f"{option('choice_columns')} says where.",
            )
        label = None
        if self.labelled:
            (label_text,) = record["label"]
            label = self._parse_label(row, label_text, len(choices))
        if label is not None and choices.count(choices[label]) > 1:
            raise self.incomplete_error(
                row,
                f"the right choice, {choices[label]!r:.60}, is among the choices "
                f"{choices.count(choices[label])} times, so that it cannot be told from a wrong "
                "one",
                "Change or drop the others.",
            )
        (prompt,) = record.get("prompt") or ("",)
        return ChoiceExample(prompt, choices, label, row)

    def _parse_label(self, row: int, text: str, num_choices: int) -> int:
        """Parse a label to the index of the right choice, from 0."""
        first = self.columns.first_label
        name = text.strip()
        # pandas writes 1.0 in a column that has missing values
        number = whole_number(name.removesuffix(".0"))
        if number is not None and 0 <= number - first < num_choices:
            return number - first
        if len(name) == 1 and name.isascii():
            index = ord(name.upper()) - ord("A")
            if 0 <= index < num_choices:
                return index
        last_letter = chr(ord("A") + num_choices - 1)
        counting = ""
        if number == num_choices and first == 0:
            counting = f", or pass {option('first_label', 1)} if they are counted from 1"
        raise InputError(
            f"{self.locate_row(row)}: the label is '{name}'; allowed are {first} to "
            f"{first + num_choices - 1}, or A to {last_letter}. Fix the row{counting}."
        )

    def _build_specs(self) -> list[ColumnSpec]:
        """Describe the columns to look for; earlier ones take their columns first."""
        columns = self.columns
        # With `skip_incomplete`, `predict` skipped rows with an empty prompt, so these have no
        # prediction to compare with. They must be skipped here, too.
        may_lack_prompt = not self.needs_prompt and not columns.skip_incomplete
        prompt = ColumnSpec(
            "prompt", "text_column", columns.text_column, PROMPT_COLUMNS,
            is_optional=not self.needs_prompt, may_be_empty=may_lack_prompt,
            may_lack_key=may_lack_prompt,
        )  # fmt: skip
        start = ColumnSpec(
            "beginning of the choices", "start_column", columns.start_column, START_COLUMNS,
            is_optional=True, may_be_empty=True, may_lack_key=True,
        )  # fmt: skip
        # This spec takes its column before the spec of the choices does: `answer` beside `answer1`
        # and `answer2` says which of the two is right.
        label = ColumnSpec(
            "label", "label_column", columns.label_column, RIGHT_CHOICE_COLUMNS,
            scalars=(int, float), is_read=self.labelled,
        )  # fmt: skip
        choices = ColumnSpec(
            "choices", "choice_columns", columns.choice_columns, CHOICE_COLUMNS,
            is_many=True, may_lack_key=True, read_list=list,
        )  # fmt: skip
        if columns.start_column == "none":
            return [prompt, label, choices]
        return [prompt, start, label, choices]
