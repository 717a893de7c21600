"""An objective with additional eval metrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.training.objective import LossTerm, Objective

Measure = Callable[[BertModel], Mapping[str, float]]
"""Function from a model in evaluation mode to metrics by name; picklable."""


@dataclass(frozen=True)
class Measured(Objective[BertModel, Batch]):
    """`objective` with the metrics of `measure` in its evaluations, as `held_out_{name}_…`."""

    objective: Objective[BertModel, Batch]
    measure: Measure
    name: str

    def num_micro_batches(self, step: int) -> int:
        return self.objective.num_micro_batches(step)

    def micro_batch(self, step: int, index: int) -> Batch:
        return self.objective.micro_batch(step, index)

    def counts(self, batch: Batch) -> dict[str, int]:
        return self.objective.counts(batch)

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        return self.objective.losses(model, batch)

    def evaluate(self, model: BertModel) -> dict[str, float]:
        """Compute the objective's eval metrics, then the additional ones."""
        others = {f"held_out_{self.name}_{key}": v for key, v in self.measure(model).items()}
        return {**self.objective.evaluate(model), **others}

    def describe(self, step: int) -> str:
        return self.objective.describe(step)

    def identity(self) -> Mapping[str, Any]:
        """Return the objective's identity: measuring does not affect training."""
        return self.objective.identity()
