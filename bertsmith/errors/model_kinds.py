"""The kinds of model folders with their commands, and the error of a command for another kind.

A system is a model beside BERT, such as a GPT or T5. A fine-tuning task is a command of its own,
such as "finetune tag"; "finetune" stands for all of them but "finetune translate".
`tests/lineage/test_model_kinds.py` tries each command on each kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.errors.kinds import CheckpointError

WRITING = "finetune translate"
"""The one command of fine-tuning that is not for encoders: the model learns to write a text."""
PAIR_EVALUATION = "evaluate --minimal-pairs"


@dataclass(frozen=True)
class ModelKind:
    """A kind of model folder."""

    noun: str
    """Name in messages, such as "a GPT"."""
    commands: tuple[str, ...]
    """The commands that take folders of this kind, in the order of messages."""
    model_type: str = ""
    """The `model_type` of a system other than BERT, if its reader takes folders of this kind, too.

    A fine-tuned T5 is read as any T5, so its kind has "t5". A GPT classifier has other heads than a
    GPT and a reader of its own, so the field of its kind is empty, as in the kinds of encoders."""

    def has(self, command: str) -> bool:
        """Return whether a command takes folders of this kind."""
        # "finetune" among the commands stands for all tasks of encoders.
        is_task = command.startswith("finetune ") and command != WRITING
        return command in self.commands or (is_task and "finetune" in self.commands)


MASKED_LANGUAGE_MODEL = ModelKind(
    "a masked language model",
    ("fill", "embed", PAIR_EVALUATION, "look", "serve", "finetune"),
)
ENCODER = ModelKind("an encoder without a task", ("embed", "look", "serve", "finetune"))
FINE_TUNED = ModelKind(
    "a fine-tuned encoder", ("predict", "evaluate --data", "embed", "look", "serve", "finetune")
)
ENCODERS = (MASKED_LANGUAGE_MODEL, ENCODER, FINE_TUNED)
VECTOR_TABLE = ModelKind("a table of static vectors", ("embed", "serve", "finetune classify"))

LANGUAGE_MODEL_COMMANDS = (PAIR_EVALUATION, "finetune classify")
"""Commands of each GPT, LSTM and ELMo without a classifier."""
CLASSIFIER_COMMANDS = ("predict", "evaluate --data", "serve", "finetune classify")
"""Commands of each classifier on a GPT, LSTM or ELMo."""
WRITTEN_TASKS = ("finetune classify", "finetune regress")
"""Tasks that a T5 learns by writing the name of the class, or the number."""
WRITER_COMMANDS = ("translate", "evaluate --data", "look", WRITING)
"""Commands of each model that writes a target for a source."""

SYSTEM_KINDS = {
    kind.model_type: kind
    for kind in (
        ModelKind("a GPT", ("generate", "look", *LANGUAGE_MODEL_COMMANDS), "gpt2"),
        ModelKind("an LSTM (or GRU)", ("generate", *LANGUAGE_MODEL_COMMANDS), "recurrent"),
        ModelKind("an ELMo", LANGUAGE_MODEL_COMMANDS, "elmo"),
        ModelKind("a Transformer", WRITER_COMMANDS, "marian"),
        ModelKind("a T5", (*WRITER_COMMANDS, *WRITTEN_TASKS), "t5"),
    )
}
"""Maps the `model_type` of each system beside BERT to its kind, without classifiers."""
CLASSIFIER_KINDS = {
    "gpt2": ModelKind("a GPT classifier", (*CLASSIFIER_COMMANDS, "look")),
    "recurrent": ModelKind("an LSTM (or GRU) classifier", CLASSIFIER_COMMANDS),
    "elmo": ModelKind("an ELMo classifier", CLASSIFIER_COMMANDS),
    # Such a T5 writes the name of a class or a number, so its folder has the `model_type` "t5".
    "t5": ModelKind(
        "a fine-tuned T5", ("predict", "serve", *WRITER_COMMANDS, *WRITTEN_TASKS), "t5"
    ),
}
"""Maps the `model_type` of systems beside BERT to the kind of their classifiers."""
ALL_KINDS = (*ENCODERS, VECTOR_TABLE, *SYSTEM_KINDS.values(), *CLASSIFIER_KINDS.values())


def name_of_family(model_type: str) -> str:
    """Return the name by which people know a family; of BERT's relatives it is the `model_type`.

    >>> name_of_family("marian"), name_of_family("roberta")
    ('Transformer', 'roberta')
    """
    kind = SYSTEM_KINDS.get(model_type)
    return model_type if kind is None else kind.noun.partition(" ")[2]  # without "a" or "an"


class ModelKindError(CheckpointError):
    """A folder holds a model of another kind than a command, or a call, can use.

    Args:
        path: the folder, or its config.json.
        kind: the kind of the model in it.
        command: the command that was asked for; empty if it is not known where the error is raised.
        advice: a folder to use instead, as a sentence.
    """

    def __init__(self, path: Path, kind: ModelKind, command: str = "", advice: str = "") -> None:
        super().__init__(path, kind, command, advice)
        self.path = path
        self.kind = kind
        self.command = command
        self.advice = advice

    def of_command(self, command: str) -> "ModelKindError":
        """Return the error with the name of a command, if it has none yet."""
        return ModelKindError(self.path, self.kind, self.command or command, self.advice)

    @property
    def message(self) -> str:
        users = describe_users(self.command)
        if self.kind.has(self.command):  # the command takes the folder, but not with these options
            problem = f"an encoder such as BERT is needed here, and this is {self.kind.noun}."
        elif users:
            problem = f"'bertsmith {self.command}' is for {users}, and this is {self.kind.noun}."
        elif self.command:
            problem = f"'bertsmith {self.command}' does not read {self.kind.noun}."
        else:
            problem = f"this is {self.kind.noun}."
        commands = _join(self.kind.commands, "and")
        return f"{self.path}: {problem} Its commands are {commands}. {self.advice}".rstrip()


def describe_users(command: str) -> str:
    """List the kinds of models that a command takes; empty if no kind has the command.

    >>> describe_users("translate")
    'a Transformer, a T5 or a fine-tuned T5'
    """
    nouns = [kind.noun for kind in ALL_KINDS if kind.has(command)]
    if ENCODER.has(command):  # then fine-tuned encoders and masked language models have it, too
        nouns = ["an encoder such as BERT", *nouns[len(ENCODERS) :]]
    return _join(nouns, "or")


def _join(words: Sequence[str], conjunction: str) -> str:
    """Join words by commas, the last two by a conjunction.

    >>> _join(["a", "b", "c"], "or")
    'a, b or c'
    """
    *first, last = words or [""]
    return f"{', '.join(first)} {conjunction} {last}" if first else last
