"""Prune the attention heads of a model that matter least."""

from dataclasses import dataclass
from pathlib import Path

from bertsmith.compression.folder import Smaller, SourceModel
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
from bertsmith.model.shrinking import prune_heads, zero_heads
from bertsmith.system.compute import Advanced
from bertsmith.tasks.auto import load_predictor
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples
from bertsmith.training.objective import Objective

TRANSFORMERS_NOTE = (
    "transformers 4 opens this folder (pruned_heads in config.json); transformers 5 cannot, having "
    "given pruning up. Where it must, pass --keep-shape, which saves nothing."
)

MODERNBERT_NOTE = (
    "transformers opens this folder in no version: it has no pruned heads of ModernBERT. Where it "
    "must, pass --keep-shape, which saves nothing."
)


@dataclass(frozen=True)
class HeadSettings:
    """Fewer attention heads: many can go at little cost. Which ones, the gradients of the loss on
    your examples tell (Michel et al. 2019); query, key, value and output become smaller matrices.
    """

    prune_heads: float | None = None
    """Pruning ratio: the share of all heads to prune, such as 0.3."""
    num_heads: int | None = None
    """Number of heads to keep in all layers together, instead of --prune-heads. Each layer keeps
    one."""
    examples: Path | None = None
    """Labelled examples that rank the heads of a fine-tuned model: such as those it was trained
    with, and better not those of --data. Those of a pre-trained model are ranked by --corpus."""
    num_examples: Advanced[int] = 1000
    """Number of examples, or rows of the corpus, that rank the heads."""
    keep_shape: Advanced[bool] = False
    """Keep the shape: set heads to zero instead of removing them. The model stays as large, and
    transformers 5 opens it, which no longer supports pruned heads."""

    def shrink(self, source: SourceModel) -> Smaller:
        """Remove the attention heads that matter least on the given data.

        Raises:
            ConfigError: a layer would have no head left.
            InputError: the examples cannot be read.
            CheckpointError: a corpus cannot weigh the heads.
        """
        config = source.model.config
        num_heads = len(all_heads(config))
        num_pruned = self.num_pruned(source.path, config)
        objective = self.weighing_objective(source)
        importance = head_importance(source.model, objective)
        heads = least_important(importance, config, num_pruned)
        change = zero_heads if self.keep_shape else prune_heads
        named = "; ".join(f"layer {i}: {', '.join(map(str, gone))}" for i, gone in heads.items())
        verb = "silenced" if self.keep_shape else "pruned"
        note = MODERNBERT_NOTE if config.model_type == "modernbert" else TRANSFORMERS_NOTE
        return Smaller(
            change(source.model, heads),
            source.tokenizer,
            done=f"{verb} {num_pruned} of {num_heads} heads: {named}",
            facts={
                "method": "heads",
                "kept_shape": self.keep_shape,
                "pruned_heads": heads,
                "importance": importance.round(6).tolist(),
            },
            notes=() if self.keep_shape else (note,),
        )

    def num_pruned(self, path: Path, config: BertConfig) -> int:
        if (self.prune_heads is None) == (self.num_heads is None):
            raise ConfigError(
                "How many heads should stay? Give --prune-heads or --num-heads."
                if self.num_heads is None
                else "Give either --prune-heads or --num-heads, not both."
            )
        num_heads, num_layers = len(all_heads(config)), config.num_hidden_layers
        if isinstance(config, AlbertConfig) and len(set(config.owners("attention"))) < num_layers:
            raise ConfigError(
                f"{path}: its {num_layers} layers share their attention, so no layer has heads of "
                "its own to prune. Take out layers (--num-layers)."
            )
        if num_heads == num_layers:
            raise ConfigError(
                f"{path}: each of its {num_layers} layers has one head, which it needs. Choose a "
                "model with more, or take out layers (--num-layers)."
            )
        if self.prune_heads is not None:
            return _num_of_share(self.prune_heads, num_heads, num_layers)
        assert self.num_heads is not None
        if not num_layers <= self.num_heads < num_heads:
            raise ConfigError(
                f"--num-heads: found {self.num_heads}; allowed is {num_layers} (one in each layer) "
                f"to {num_heads - 1} of the {num_heads} that there are."
            )
        return num_heads - self.num_heads

    def weighing_objective(self, source: SourceModel) -> Objective[BertModel, Batch]:
        """Build the objective whose first step holds all data that ranks heads."""
        if self.num_examples < 1:
            raise ConfigError(f"--num-examples: found {self.num_examples}; allowed is 1 or more.")
        if (self.examples is None) == (source.corpus is None):
            raise ConfigError(
                f"To rank the heads, give {'only one of them' if self.examples else 'data'}: "
                "--examples FILE for a fine-tuned model, --corpus DIR for a pre-trained one."
            )
        if self.examples is not None:
            return _task_objective(source, self.examples, self.num_examples)
        assert source.corpus is not None
        if "masked_lm" not in source.model.heads:
            raise CheckpointError(
                f"{source.path}: the model has no masked-LM head, so a corpus cannot weigh its "
                f"attention heads. {who_guesses(source.path)} If it is fine-tuned, give --examples."
            )
        return corpus_objective(source.corpus, source.model, source.tokenizer, self.num_examples)


def _num_of_share(share: float, num_heads: int, num_layers: int) -> int:
    found, most = round(share * num_heads) if 0 < share < 1 else 0, num_heads - num_layers
    if not 1 <= found <= most:
        raise ConfigError(
            f"--prune-heads: found {share}; allowed is {1 / num_heads:.3g} to "
            f"{most / num_heads:.3g} (1 to {most} of {num_heads} heads): each layer keeps one."
        )
    return found


def _task_objective(source: SourceModel, path: Path, num_examples: int) -> FineTuning:
    """Build the task's loss on the first examples of a file."""
    predictor = load_predictor(source.folder, device="cpu", precision="fp32")
    task = predictor.definition.with_columns(source.columns)
    examples = list(task.reader(path, source.columns, labelled=True).first(num_examples))
    if not examples:
        raise InputError(f"{path}: holds no example. Name a file with some.")
    loaded = predictor.loaded
    encoded = task.encode(loaded.tokenizer, examples, loaded.max_length, labelled=True)
    train = training_examples(task, encoded, path, examples)
    held_out = HeldOutExamples(encoded, path, examples)
    return FineTuning(task, train, held_out, batch_size=len(train))
