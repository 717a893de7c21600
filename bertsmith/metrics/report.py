"""Reports of scores: one list of contents, shown as text or, in a notebook, as HTML."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from bertsmith.metrics.names import format_score
from bertsmith.system.notebook import html_lines, html_table
from bertsmith.system.terminal import align_columns


class ScoreLine(NamedTuple):
    """A score with its meaning in words."""

    name: str
    value: float
    meaning: str

    @property
    def shown(self) -> str:
        """The value as people read it."""
        # `format_score` knows a score by its key, such as "rmse"; reports name it "RMSE".
        return format_score(self.name.lower(), self.value)


class Table(NamedTuple):
    """A table of formatted cells, whose first column names the rows."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


class Report(ABC):
    """Base class of reports: `str` gives the text, and notebooks show the HTML."""

    @abstractmethod
    def contents(self) -> list[ScoreLine | Table | str]:
        """Return scores, tables and lines of text, in the order of the text.

        In HTML all scores form one table, which comes first.
        """

    def __str__(self) -> str:
        contents = self.contents()
        width = max((len(part.name) for part in contents if isinstance(part, ScoreLine)), default=0)
        lines: list[str] = []
        for part in contents:
            if isinstance(part, ScoreLine):
                lines.append(f"{part.name:<{width}}  {part.shown}   ({part.meaning})")
            elif isinstance(part, Table):
                lines += align_columns([part.titles, *part.rows])
            else:
                lines.append(part)
        return "\n".join(lines)

    def _repr_mimebundle_(self, **include: Any) -> dict[str, str]:
        """Return the text, which IPython then shows instead of the fields' names and values.

        IPython passes the formats that it asks for (`include`); it gets the text in any case.
        """
        return {"text/plain": str(self)}

    def _repr_html_(self) -> str:
        contents = self.contents()
        scores = [part for part in contents if isinstance(part, ScoreLine)]
        html = ""
        if scores:
            html = html_table([(score.name, score.shown, score.meaning) for score in scores])
        for part in contents:
            if isinstance(part, Table):
                html += html_table(part.rows, part.titles)
            elif isinstance(part, str) and part:
                html += html_lines([part])
        return html
