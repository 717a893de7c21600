"""Classification by a model that writes the name of the class, such as a T5.

A class's probability is that of its name given the text, in proportion to those of all classes.
"""

from dataclasses import dataclass
from typing import ClassVar

from bertsmith.tasks.label_prediction import ClassPrediction
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.written_task import WrittenTask


@dataclass(frozen=True)
class WrittenClassify(WrittenTask[ClassPrediction], Classify):
    """Classification with one label per text or pair, which the model writes."""

    heads: ClassVar[tuple[str, ...]] = ("classify",)

    @property
    def written_texts(self) -> tuple[str, ...]:
        return self.labels


TASK = WrittenClassify
