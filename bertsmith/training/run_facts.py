"""The content of a run's `run.json`, its *facts*, which are checked when they are read again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn, Self

from bertsmith.errors import CheckpointError, option
from bertsmith.metrics.names import SCORE_MEANINGS
from bertsmith.system.json_text import shown_json


@dataclass(frozen=True)
class FactKind:
    """A type of facts: its name in messages, and a test of a value."""

    name: str
    is_valid: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)  # `bool` is a subclass of `int`


def _is_guess(value: Any) -> bool:
    """Return whether a value is a `GapGuess` (comparison/gap_evaluation.py) as JSON."""
    if not isinstance(value, dict) or value.keys() != {"token", "percent"}:
        return False
    return isinstance(value["token"], str) and _is_number(value["percent"])


def _list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


OBJECT = FactKind("an object", lambda value: isinstance(value, dict))
OBJECTS = FactKind("a list of objects", _list_of(OBJECT.is_valid))
TEXT = FactKind("a text", lambda value: isinstance(value, str))
TEXTS = FactKind("a list of texts", _list_of(TEXT.is_valid))
WHOLE = FactKind("a whole number", lambda value: type(value) is int)
TWO = FactKind(
    "a list of two whole numbers", lambda value: _list_of(WHOLE.is_valid)(value) and len(value) == 2
)
NUMBER = FactKind("a number", _is_number)
GUESSES = FactKind("lists of tokens with percent", _list_of(_list_of(_is_guess)))
# Facts that are null if there is nothing to say.
TEXT_OR_NONE = FactKind("a text or null", lambda value: value is None or TEXT.is_valid(value))
LIST_OR_NONE = FactKind("a list or null", lambda value: value is None or isinstance(value, list))
WHOLE_OR_NONE = FactKind(
    "a whole number or null", lambda value: value is None or WHOLE.is_valid(value)
)
NUMBER_OR_NONE = FactKind("a number or null", lambda value: value is None or _is_number(value))

FACTS: Mapping[str, FactKind] = {
    **dict.fromkeys(("settings", "settings.optim", "config", "config.model", "config.evaluations",
                     "config.pretraining", "config.source_weights", "machine", "versions", "files",
                     "series", "source", "data", "distillation", "summary", "summary.last_step",
                     "summary.held_out", "result", "result.evaluation", "comparison",
                     "comparison.rows", "comparison.figures", "comparison.cost", "glue",
                     "glue.scores", "glue.scores.*", "repeats"), OBJECT),
    **dict.fromkeys(("config.model.num_hidden_layers", "config.model.hidden_size",
                     "config.evaluations.rows", "config.evaluations.times", "config.compared_rows",
                     "config.pretraining.start_steps", "config.pretraining.masking_schedule_steps",
                     "data.train_documents", "data.train_tokens", "summary.steps",
                     "summary.real_tokens", "result.num_train", "result.num_train_windowed",
                     "result.num_train_truncated", "result.num_train_skipped", "result.num_overlap",
                     "source.num_unknown", "comparison.rows.*", "comparison.memory_bytes"), WHOLE),
    **dict.fromkeys(("config.model.n_layer", "config.model.encoder_layers",
                     "config.model.num_layers", "config.model.n_embd", "config.model.d_model",
                     "result.evaluation.num_*", "result.evaluation.total"), WHOLE_OR_NONE),
    **dict.fromkeys(("settings.optim.max_grad_norm", "data.held_out_unigram_entropy",
                     "summary.elapsed_seconds", "summary.tokens_per_second",
                     "summary.data_wait_fraction", "summary.last_step.*", "summary.held_out.*",
                     "result.best_score", "comparison.figures.*", "comparison.cost.*",
                     "glue.seconds", "glue.scores.*.*"), NUMBER),
    **dict.fromkeys(("glue.majority", *(f"result.evaluation.{name}" for name in SCORE_MEANINGS)),
                    NUMBER_OR_NONE),
    **dict.fromkeys(("kind", "config.preset", "config.system", "result.task", "result.target",
                     "result.start_note", "glue.start_note"), TEXT),
    "settings.head": TEXT_OR_NONE,
    **dict.fromkeys(("result.notes", "source.new", "source.dropped", "comparison.sentences"),
                    TEXTS),
    "result.labels": LIST_OR_NONE,
    "result.baselines": OBJECTS,
    **dict.fromkeys(("source.num_positions", "source.num_words"), TWO),
    "comparison.guesses": GUESSES,
}  # fmt: skip
"""Types of the facts in `run.json` that are read again, by their dotted names, in which `*` stands
for any key. A fact may be missing."""

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

        `kind` is a result of `name_kind` (system/run_state.py), such as "pre-training".

        Raises:
            CheckpointError: a fact is missing; the message names it.
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
            CheckpointError: a fact is of another type; the message names it.
        """
        for pattern, kind in FACTS.items():
            for name, value in _find_facts(self, pattern.split(".")):
                if not kind.is_valid(value):
                    problem = f"{name} is {shown_json(value)}, and must be {kind.name}"
                    raise damaged_run(self.path, problem)


def _find_facts(facts: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of each fact that a path of keys leads to.

    Args:
        keys: a key for each level, in which `*` stands for any key.
    """
    first, *others = keys
    for key, value in facts.items():
        if not fnmatchcase(key, first):
            continue
        if not others:
            yield key, value
        elif isinstance(value, dict):
            for name, inner in _find_facts(value, others):
                yield f"{key}.{name}", inner


def damaged_run(path: Path, reason: str) -> CheckpointError:
    """Build the error for a `run.json` that cannot be used."""
    return CheckpointError(
        f"{path}: damaged ({reason}). Begin the run again with {option('overwrite', True)}, or in "
        f"another {option('out')}."
    )
