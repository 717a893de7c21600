"""Predictions for a chunk of examples, computed in this process or on another rank.

A chunk is a list of examples that are read and predicted together. A rank is one of the processes
that work together on several machines or GPUs.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertsmith.data.unknown_tokens import UnknownTokens
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.prediction import InferenceTask


@dataclass(frozen=True)
class ChunkPredictor:
    """A function from a chunk to its predictions, which can be sent to other ranks.

    It holds a loaded model and, in `definition`, the task that encodes examples and decodes
    outputs.
    """

    loaded: LoadedModel
    definition: InferenceTask[Any, Any]
    device_type: str
    """Type of the device that predicts, on every rank: cpu, cuda or mps."""

    @classmethod
    def of(cls, loaded: LoadedModel, definition: InferenceTask[Any, Any]) -> "ChunkPredictor":
        """Prepare a model to be sent to other ranks; models on a GPU are copied to main memory.

        Then no tensor names the GPU of this rank, and each rank moves the models to its own GPU.
        """
        device_type = loaded.device.type
        if device_type != "cpu":  # copies, since the caller's models stay on their GPU
            loaded = replace(loaded, model=copy.deepcopy(loaded.model))
            definition = copy.deepcopy(definition)
        predictor = cls(loaded, definition, device_type)
        predictor.move_models("cpu")
        return predictor

    def move_models(self, device_type: str) -> None:
        """Move the models that are elsewhere to this rank's device of a type, such as cuda."""
        for model in (self.loaded.model, *self.definition.other_models):
            if model.device.type != device_type:
                model.to(device_type)

    def __call__(self, examples: Sequence[Any]) -> tuple[list[Any], UnknownTokens]:
        """Predict examples on this rank's device; also return counts of their unknown tokens."""
        loaded = self.loaded
        self.move_models(self.device_type)
        encoded = self.definition.encode(
            loaded.tokenizer, examples, loaded.max_length, labelled=False
        )
        unknown_tokens = UnknownTokens()
        unknown_tokens.add(encoded.rows.ids.flat, loaded.tokenizer)
        return self.definition.predict(loaded.model, encoded, examples), unknown_tokens
