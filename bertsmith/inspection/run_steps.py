"""A look at the checkpoints of a run: the same text at each step, so that one sees heads form."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, option
from bertsmith.inspection.decisions import Decided, decide
from bertsmith.inspection.page_limits import most_frames
from bertsmith.inspection.shown_text import ShownText
from bertsmith.system.progress import tracked
from bertsmith.tasks.auto import load_with_gradients
from bertsmith.tasks.predictor import Predictor
from bertsmith.training.checkpoint import list_checkpoints

CHECKPOINTS_DIR = "checkpoints"


@dataclass(frozen=True, eq=False)
class RunStep:
    """The model of a run after `step` steps, while it reads the text."""

    step: int
    decided: Decided


def look_at_steps(
    predictor: Predictor[Any], rows: Sequence[ShownText], decided: Decided
) -> tuple[list[RunStep], int]:
    """Compute what the checkpoints of a model's run decide; also return how many there are.

    Of many checkpoints, evenly spread ones are taken, the first and the last included.

    Raises:
        CheckpointError: there are none, or one of another model, or a damaged one.
    """
    folder = Path(predictor.loaded.folder.path) / CHECKPOINTS_DIR
    paths = list_checkpoints(folder)
    if not paths:
        raise CheckpointError(
            f"{folder}: there is no checkpoint in it. Leave out {option('checkpoints', True)}, or "
            f"train with {option('checkpoint_every')} and a larger {option('keep')}, which says "
            "how many stay."
        )
    config = predictor.model.config
    num_heads = config.num_hidden_layers * config.num_attention_heads
    limit = most_frames(num_heads, len(decided.shown.ids))
    chosen = [paths[index] for index in evenly_spread(len(paths), limit)]
    steps = []
    for path in tracked(chosen, "looking at checkpoints"):
        other = load_with_gradients(path, device=predictor.device)
        if (
            other.model.config != predictor.model.config
            or other.tokenizer.fingerprint != predictor.tokenizer.fingerprint
            or other.labels != predictor.labels
        ):
            raise CheckpointError(
                f"{path}: this checkpoint is of another model than {predictor.loaded.folder.path}. "
                "Give the folder of the run that wrote it."
            )
        number = int(path.name.removeprefix("step-"))
        steps.append(RunStep(number, decide(other, rows, like=decided)))
    return steps, len(paths)


def evenly_spread(count: int, limit: int) -> list[int]:
    """Choose at most `limit` indices below `count`, evenly spread, first and last included.

    >>> evenly_spread(10, 4)
    [0, 3, 6, 9]
    """
    if count <= limit:
        return list(range(count))
    if limit == 1:
        return [count - 1]
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]
