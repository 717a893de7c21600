"""Text-to-text classification: a model such as a T5 writes the name of the class.

The probability of a class is the probability of writing its name, divided by the sum of these
probabilities over all classes.
"""

from dataclasses import dataclass
from typing import ClassVar

from bertsmith.tasks.label_prediction import ClassPrediction
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_to_text_task import TextToTextTask


@dataclass(frozen=True)
class TextToTextClassify(TextToTextTask[ClassPrediction], Classify):
    """Classification with one label per text or pair, which the model writes."""

    # The name by which config.json says what the model does; a T5 has no head with weights.
    heads: ClassVar[tuple[str, ...]] = ("classify",)

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts that the model may write."""
        return self.labels


TASK = TextToTextClassify  # imported by catalog.py, which names this module
