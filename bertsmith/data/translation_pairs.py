"""Read pairs of a source and a target text, from a table or rows in memory."""

from dataclasses import dataclass
from typing import Any

from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.columns import TranslationColumns
from bertsmith.data.records import RecordReader
from bertsmith.data.row_texts import Record
from bertsmith.data.text_files import ExampleSource

# The usual names of columns; the first one that a table has is read.
SOURCES = ("source", "src", "input", "text", "document", "article", "question", "en")
TARGETS = ("target", "tgt", "output", "translation", "summary", "answer", "de", "zh", "fr", "label")


@dataclass(frozen=True, slots=True)
class TranslationPair:
    """A source text, and the target text that a model shall write for it.

    `row` is the number of their row or line in the file, from 1.
    """

    source: str
    target: str
    row: int = 0

    @property
    def content(self) -> tuple[str, str]:
        """Both texts; pairs that have both equal are duplicates."""
        return self.source, self.target

    def to_json(self) -> dict[str, Any]:
        """Return the line and the texts, as they are written beside a prediction."""
        return {"line": self.row, "source": self.source, "target": self.target}


class TranslationReader(RecordReader[TranslationPair]):
    """Lazy reader of pairs; `source` is as for `RecordReader`."""

    def __init__(self, source: ExampleSource, columns: TranslationColumns | None = None) -> None:
        columns = columns or TranslationColumns()
        specs = [
            ColumnSpec("source", "source_column", columns.source_column, SOURCES),
            ColumnSpec("target", "target_column", columns.target_column, TARGETS),
        ]
        super().__init__(
            source,
            columns,
            lambda column_names: specs,
            self._build_pair,
            # "lines of text have no targets beside the sources", as a message says of a .txt file
            lines_lack="targets beside the sources",
        )

    def _build_pair(self, row: int, record: Record) -> TranslationPair:
        # The record has a tuple of one text by the name of each spec.
        (source,), (target,) = record["source"], record["target"]
        return TranslationPair(source, target, row)
