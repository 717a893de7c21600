"""The HTML page of predictions: a row for each text, with predicted labels or spans in color."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.pages.page import write_page
from bertsmith.pages.scale import Scale
from bertsmith.tasks.marks import Labelled, Marked, MarkedPart


@dataclass(frozen=True)
class PredictionRow:
    """A prediction on the page.

    Attributes:
        cells: the tab-separated columns of the prediction's line (`Prediction.line`), without the
            last column, the text, if `passage` shows it.
        labels: the predicted labels, in color, shown in place of the first cell; empty for
            predictions without labels of the whole text.
        probability: the probability of the prediction, shown in place of the second cell; None if
            it has none.
        passage: the text with the predicted spans marked; empty for other kinds of predictions.
    """

    cells: Sequence[str]
    labels: Sequence[MarkedPart]
    probability: float | None
    passage: Sequence[MarkedPart]

    @classmethod
    def of(cls, example: Any, prediction: Any) -> "PredictionRow":
        # `Marked` predictions are spans in the text, `Labelled` ones are labels of the whole text.
        passage = prediction.parts() if isinstance(prediction, Marked) else ()
        cells = str(prediction.line(example)).split("\t")
        if passage:  # the text is the last column of the line; a tagger's line has no other
            cells = cells[:-1]
        labels = prediction.label_parts() if isinstance(prediction, Labelled) else ()
        return cls(cells, labels, getattr(prediction, "probability", None), passage)

    @property
    def width(self) -> int:
        """The number of columns of the row."""
        return len(self.cells) + bool(self.passage)


def write_predictions_page(
    path: Path, model: str, titles: Sequence[str], rows: Sequence[PredictionRow], num_texts: int
) -> None:
    """Write the page.

    Args:
        model: the model as the page names it.
        titles: titles of the columns; those beyond the widest row are left out.
        num_texts: number of all predictions; `rows` may be only the first of them.

    Raises:
        InputError: the page cannot be written.
    """
    write_page(
        path,
        "tasks/page.html",
        model=model,
        titles=titles[: max((row.width for row in rows), default=None)],  # without rows, all
        rows=rows,
        num_texts=num_texts,
        share=Scale(0, 1),  # of the bars that show probabilities
    )
