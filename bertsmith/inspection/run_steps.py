"""The checkpoints of a run, each of which reads the same text: a page shows how heads form."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, option
from bertsmith.inspection.decisions import TextDecisions, decide
from bertsmith.inspection.page_limits import count_page_checkpoints
from bertsmith.inspection.shown_text import ShownText
from bertsmith.system.progress import tracked
from bertsmith.tasks.auto import load_with_gradients
from bertsmith.tasks.predictor import Predictor
from bertsmith.training.checkpoint import list_checkpoints

CHECKPOINTS_DIR = "checkpoints"


@dataclass(frozen=True, eq=False)
class RunStep:
    """The model of a run after `step` steps, while it reads the text.

    `decided` has what it decides, such as labels, with its attention and vectors in each layer.
    """

    step: int
    decided: TextDecisions


def look_at_steps(
    predictor: Predictor[Any], rows: Sequence[ShownText], decided: TextDecisions
) -> tuple[list[RunStep], int]:
    """Compute the decisions of the checkpoints of a model's run.

    If there are many checkpoints, evenly spread ones are taken, with the first and the last.

    Args:
        rows: the text as a row of tokens; of a multiple choice, one row for each choice.
        decided: the decisions of the model itself; each checkpoint's are put into their order.

    Returns:
        The steps that were taken, and the number of all checkpoints.

    Raises:
        CheckpointError: there is no checkpoint, or one is damaged or of another model.
    """
    folder = predictor.loaded.folder.path
    num_weights = sum(weights.numel() for weights in decided.layers.attentions)
    chosen, count = choose_checkpoints(folder, num_weights)
    steps = []
    for path in tracked(chosen, "looking at checkpoints"):
        other = load_with_gradients(path, device=predictor.device)
        if (
            other.model.config != predictor.model.config
            or other.tokenizer.fingerprint != predictor.tokenizer.fingerprint
            or other.labels != predictor.labels
        ):
            raise wrong_model_error(path, folder)
        steps.append(RunStep(step_of(path), decide(other, rows, reference=decided)))
    return steps, count


def choose_checkpoints(folder: str | Path, num_weights: int) -> tuple[list[Path], int]:
    """Choose the checkpoints in a run's folder that a page shows; also return how many there are.

    Of many checkpoints, evenly spread ones are taken, the first and the last included.

    Args:
        num_weights: number of attention weights that a page has for each checkpoint.

    Raises:
        CheckpointError: the run has no checkpoints.
    """
    checkpoints = Path(folder) / CHECKPOINTS_DIR
    paths = list_checkpoints(checkpoints)
    if not paths:
        raise CheckpointError(
            f"{checkpoints}: there is no checkpoint in it. Leave out {option('checkpoints', True)},"
            f" or train with {option('checkpoint_every')} and a larger {option('keep')}, which says"
            " how many stay."
        )
    chosen = evenly_spread(len(paths), count_page_checkpoints(num_weights))
    return [paths[index] for index in chosen], len(paths)


def step_of(checkpoint: Path) -> int:
    """Return the step after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("step-"))


def wrong_model_error(checkpoint: Path, folder: str | Path) -> CheckpointError:
    """Make the error for a checkpoint that is not of the model in `folder`."""
    return CheckpointError(
        f"{checkpoint}: this checkpoint is of another model than {folder}. Give the folder of the "
        "run that wrote it."
    )


def evenly_spread(count: int, limit: int) -> list[int]:
    """Choose at most `limit` indices below `count`: the first, the last, and evenly spread others.

    If `limit` is 1, it is the last.

    >>> evenly_spread(10, 4)
    [0, 3, 6, 9]
    """
    if count <= limit:
        return list(range(count))
    if limit == 1:
        return [count - 1]
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]
