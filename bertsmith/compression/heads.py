"""Prune the attention heads of a model that matter least."""

from dataclasses import dataclass
from pathlib import Path

from bertsmith.compression.folder import (
    Compressed,
    CompressSettings,
    Smaller,
    alone_in_out,
    finish,
    open_source,
)
from bertsmith.compression.head_importance import (
    all_heads,
    head_importance,
    least_important,
)
from bertsmith.compression.held_out import corpus_objective
from bertsmith.data.batches import Batch
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.electra_pair import who_guesses
from bertsmith.model.families.albert import AlbertConfig
from bertsmith.model.head_pruning import prune_heads, zero_heads
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.hardware import select_device
from bertsmith.tasks.auto import predictor_of, rows_of
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import Objective

TRANSFORMERS_NOTE = (
    "transformers 4 opens this folder (pruned_heads in config.json); transformers 5 cannot, having "
    "given pruning up. Where it must, pass --keep-shape, which saves nothing."
)


@dataclass(frozen=True)
class HeadSettings(CompressSettings):
    """Settings of head pruning: how many heads, and the data that ranks them."""

    examples: Path | None = None
    """Labelled examples that rank the heads of a fine-tuned model: such as those it was trained
    with, and better not those of --data."""
    corpus: Path | None = None
    """Corpus that ranks the heads of a pre-trained model, instead of --examples: a folder of
    `bertsmith corpus build`. Its training rows rank the heads, its held-out rows score both models.
    """
    num_examples: int = 1000
    """Number of examples, or rows of the corpus, that rank the heads."""
    share: float | None = None
    """Pruning ratio: the share of all heads to prune, such as 0.3."""
    keep_heads: int | None = None
    """Number of heads to keep in all layers together, instead of --share. Each layer keeps one."""
    keep_shape: bool = False
    """Keep the shape: set heads to zero instead of removing them. Nothing is saved, but
    transformers 5, which no longer supports pruned heads, opens the folder."""


@alone_in_out
def compress_heads(settings: HeadSettings) -> Compressed:
    """Remove the attention heads that matter least on the given data.

    Raises:
        ConfigError: a layer would have no head left, or an occupied `out`.
        InputError: the examples cannot be read.
        CheckpointError: the folder is incomplete or not a BERT.
    """
    source, model, tokenizer = open_source(settings)
    num_heads = len(all_heads(model.config))
    num_pruned = heads_to_prune(settings, model.config)
    objective = weighing_objective(settings, source, model, tokenizer)
    importance = head_importance(model.to(select_device(settings.device)), objective)
    heads = least_important(importance, model.config, num_pruned)
    change = zero_heads if settings.keep_shape else prune_heads
    named = "; ".join(f"layer {i}: {', '.join(map(str, gone))}" for i, gone in heads.items())
    verb = "silenced" if settings.keep_shape else "pruned"
    smaller = Smaller(
        change(model.cpu(), heads),
        tokenizer,
        done=f"{verb} {num_pruned} of {num_heads} heads: {named}",
        facts={
            "method": "heads",
            "kept_shape": settings.keep_shape,
            "pruned_heads": heads,
            "importance": importance.round(6).tolist(),
        },
        notes=() if settings.keep_shape else (TRANSFORMERS_NOTE,),
    )
    return finish(settings, source, smaller)


def heads_to_prune(settings: HeadSettings, config: BertConfig) -> int:
    """Compute the number of heads to prune."""
    if (settings.share is None) == (settings.keep_heads is None):
        raise ConfigError("Give --share or --keep-heads; exactly one of them.")
    num_heads, num_layers = len(all_heads(config)), config.num_hidden_layers
    if isinstance(config, AlbertConfig) and len(set(config.owners("attention"))) < num_layers:
        raise ConfigError(
            f"{settings.model}: its {num_layers} layers share their attention, so no layer has "
            "heads of its own to prune. Take out layers: 'bertsmith compress layers'."
        )
    if num_heads == num_layers:
        raise ConfigError(
            f"{settings.model}: each of its {num_layers} layers has one head, which it needs. "
            "Choose a model with more, or take out layers: 'bertsmith compress layers'."
        )
    if settings.keep_heads is None:
        assert settings.share is not None
        return share_of_heads(settings.share, num_heads, num_layers)
    if not num_layers <= settings.keep_heads < num_heads:
        raise ConfigError(
            f"--keep-heads: found {settings.keep_heads}; allowed is {num_layers} (one in each "
            f"layer) to {num_heads - 1} of the {num_heads} that there are."
        )
    return num_heads - settings.keep_heads


def share_of_heads(share: float, num_heads: int, num_layers: int) -> int:
    """Convert a share of all heads to a number of heads."""
    if not 0 < share < 1:
        raise ConfigError(
            f"--share: found {share}; allowed is above 0 (no head) and below 1 (every head)."
        )
    found, most = round(share * num_heads), num_heads - num_layers
    if not 1 <= found <= most:
        raise ConfigError(
            f"--share: found {share}, which is {found} of {num_heads} heads; allowed are 1 to "
            f"{most}, so that each layer keeps one."
        )
    return found


def weighing_objective(
    settings: HeadSettings, source: ModelFolder, model: BertModel, tokenizer: Tokenizer
) -> Objective[BertModel, Batch]:
    """Build the objective whose first step holds all data that ranks heads."""
    if (settings.examples is None) == (settings.corpus is None) or settings.num_examples < 1:
        raise ConfigError(
            "Give --examples FILE (for a fine-tuned model) or --corpus DIR (for a pre-trained "
            "one), one of them, to weigh heads by, and --num-examples above 0."
        )
    if settings.corpus is not None:
        if "masked_lm" not in model.heads:
            raise CheckpointError(
                f"{source.path}: the model has no masked-LM head, so a corpus cannot weigh its "
                f"attention heads. Give --examples if it is fine-tuned. {who_guesses(source.path)}"
            )
        return corpus_objective(settings.corpus, model, tokenizer, settings.num_examples)
    assert settings.examples is not None
    return task_objective(settings, settings.examples, source)


def task_objective(settings: HeadSettings, path: Path, source: ModelFolder) -> FineTuning:
    """Build the loss of the model's task on the first examples of a file."""
    predictor = predictor_of(source, device="cpu", precision="fp32").with_options(settings.columns)
    task = predictor.task
    reader = task.reader(path, settings.columns, labelled=True)
    examples = list(rows_of(reader, settings.num_examples))
    if not examples:
        raise InputError(f"{path}: holds no example. Name a file with some.")
    loaded = predictor.loaded
    encoded = task.encode(loaded.tokenizer, examples, loaded.max_length, labelled=True)
    train = training_examples(task, encoded, path, examples)
    held_out = HeldOutExamples(encoded, path, examples)
    return FineTuning(task, train, held_out, batch_size=len(train))
