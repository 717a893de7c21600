"""The content of a run's `run.json`, whose entries are checked when they are read again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

from bertsmith.errors import CheckpointError, option

NUMBER = (int, float)
FACT_KINDS = {dict: "an object", list: "a list", int: "a whole number", NUMBER: "a number",
         str: "a text"}  # fmt: skip
"""Names of types in messages."""
FACTS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("settings", "config", "machine", "files", "series", "source", "summary",
                     "result", "comparison", "glue", "data", "distillation", "versions",
                     "config.model", "repeats"), dict),
    **dict.fromkeys(("config.evaluations", "config.pretraining"), dict),
    **dict.fromkeys(("config.model.num_hidden_layers", "config.model.hidden_size",
                     "config.evaluations.rows", "config.evaluations.times",
                     "config.pretraining.start_steps", "config.pretraining.masking_schedule_steps",
                     "data.train_documents", "data.train_tokens"), int),
    "data.held_out_unigram_entropy": NUMBER,
    **dict.fromkeys(("summary.elapsed_seconds", "summary.tokens_per_second",
                     "summary.data_wait_fraction", "result.best_score"), NUMBER),
    **dict.fromkeys(("summary.steps", "summary.real_tokens"), int),
    **dict.fromkeys(("summary.last_step", "summary.held_out", "result.evaluation"), dict),
    **dict.fromkeys(("source.num_positions", "source.num_words", "source.new"), list),
    "result.notes": list,
    "kind": str,
}  # fmt: skip
"""Types of those facts in `run.json` that are read again, if they are there. An object stands
before its entries, so that it is checked first."""

NEEDED_FACTS = ("settings", "config.model.num_hidden_layers", "config.model.hidden_size")
"""Facts that every run of a BERT needs at its end, for the model card."""
NEEDED_FACTS_OF_SYSTEMS = ("settings", "config.model")
"""Facts that a run of another model, such as a GPT, needs. Its sizes have other names."""
NEEDED_FACTS_IN_PRETRAINING = ("data.train_documents", "data.train_tokens")
"""Facts that a pre-training needs besides."""


class RunFacts(dict[str, Any]):
    """An object in `run.json`. Reading a missing fact raises an error about a damaged file."""

    path = Path("run.json")

    @classmethod
    def of(cls, path: Path, values: Mapping[str, Any]) -> Self:
        facts = cls(values)
        facts.path = path
        return facts

    def __missing__(self, key: str) -> NoReturn:
        raise damaged_run(self.path, f"'{key}' is missing")

    def check_complete(self, kind: str) -> None:
        """Check that all facts are there that a run of this kind needs at its end.

        `kind` is one of those of `name_kind` (system/run_state.py).

        Raises:
            CheckpointError: one is missing; names it.
        """
        needed: tuple[str, ...] = NEEDED_FACTS if kind != "series of runs" else ("series", "kind")
        if "system" in self.get("config", {}):
            needed = NEEDED_FACTS_OF_SYSTEMS
        if kind == "pre-training":
            needed += NEEDED_FACTS_IN_PRETRAINING
            if self["settings"].get("from"):
                needed += ("source",)
        for name in needed:
            value: Any = self
            for key in name.split("."):
                value = value[key]  # raises an error if it is missing; see `__missing__`

    def check(self) -> None:
        """Check that the facts have their types.

        Raises:
            CheckpointError: one is of another type; names it.
        """
        for name, kind in FACTS.items():
            value: Any = self
            for key in name.split("."):
                if key not in value:
                    break
                value = value[key]
            else:  # all keys are there
                if not isinstance(value, kind):
                    problem = f"{name} is {json.dumps(value)[:60]}, and must be {FACT_KINDS[kind]}"
                    raise damaged_run(self.path, problem)


def damaged_run(path: Path, reason: str) -> CheckpointError:
    """Build the error for a `run.json` that cannot be used."""
    return CheckpointError(
        f"{path}: damaged ({reason}). Begin the run again with {option('overwrite', True)}, or in "
        f"another {option('out')}."
    )
