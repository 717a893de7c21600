"""An objective whose held-out figures have others beside them, measured at the same times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.tasks.objective import LossTerm, Objective

Measure = Callable[[BertModel], Mapping[str, float]]
"""Gives figures of a model in evaluation mode, by their names; picklable."""


@dataclass(frozen=True)
class Measured:
    """`objective` with the figures of `measure` in its evaluations, named `held_out_{name}_…`."""

    objective: Objective
    measure: Measure
    name: str

    def micro_batches(self, step: int) -> Sequence[Batch]:
        """As the objective's own; so are all but the held-out figures."""
        return self.objective.micro_batches(step)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Predictions of each loss term."""
        return self.objective.counts(batch)

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """The loss terms of one batch."""
        return self.objective.losses(model, batch)

    def evaluate(self, model: BertModel) -> dict[str, float]:
        """The objective's own figures, then those beside them."""
        others = {f"held_out_{self.name}_{key}": v for key, v in self.measure(model).items()}
        return {**self.objective.evaluate(model), **others}

    def describe(self, step: int) -> str:
        """Where the rows of a step come from."""
        return self.objective.describe(step)

    def identity(self) -> Mapping[str, Any]:
        """That of the objective: measuring changes nothing that is learnt."""
        return self.objective.identity()
