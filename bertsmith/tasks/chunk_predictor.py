"""Predictions for a chunk of examples, computed in this process or on another rank."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertsmith.data.unknown_tokens import UnknownTokens
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.prediction import InferenceTask


@dataclass(frozen=True)
class ChunkPredictor:
    """A loaded model and its inference task, which can be sent to other ranks."""

    loaded: LoadedModel
    definition: InferenceTask[Any, Any]
    device_type: str
    """Type of the device that predicts, on every rank: cpu, cuda or mps."""

    @classmethod
    def of(cls, loaded: LoadedModel, definition: InferenceTask[Any, Any]) -> "ChunkPredictor":
        """Prepare a model to be sent; a model on a GPU is copied to main memory first."""
        device_type = loaded.device.type
        if device_type != "cpu":
            loaded = replace(loaded, model=copy.deepcopy(loaded.model).cpu())
        return cls(loaded, definition, device_type)

    def __call__(self, examples: Sequence[Any]) -> tuple[list[Any], UnknownTokens]:
        """Predict examples on this rank's device; count their unknown tokens."""
        loaded = self.loaded
        if loaded.device.type != self.device_type:
            loaded.model.to(self.device_type)
        encoded = self.definition.encode(
            loaded.tokenizer, examples, loaded.max_length, labelled=False
        )
        unknown_tokens = UnknownTokens()
        unknown_tokens.add(encoded.rows.ids.flat, loaded.tokenizer)
        return self.definition.predict(loaded.model, encoded, examples), unknown_tokens
