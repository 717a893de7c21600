"""Encode the examples of a fine-tuning, and build the objective that divides them into steps.

An objective makes batches for the training loop, and computes their losses.
"""

from dataclasses import replace
from typing import Any

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.unknown_tokens import UnknownTokens, describe_rate
from bertsmith.finetuning.resolve import count_shares
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.machine import Machine


def encode_examples(
    settings: FinetuneSettings,
    dataset: TaskDataset[Any],
    tokenizer: Tokenizer,
    machine: Machine,
    batch_size: int,
    objective_type: type[FineTuning] = FineTuning,
) -> FineTuning:
    """Encode all examples, and build the objective that divides each step among the processes.

    Args:
        batch_size: number of examples of a step; usually that of the settings. In distillation it
            may be smaller, since a step then also has texts without labels.
        objective_type: the class of the objective.
    """
    task = dataset.task
    limit = tokenizer.model_max_length
    train = task.encode(tokenizer, dataset.train, limit, labelled=True)
    held_out = task.encode(tokenizer, dataset.held_out, limit, labelled=True)
    examples = training_examples(task, train, path=settings.train, examples=dataset.train)
    unknown_note = describe_rate(compute_unknown_rate(train, tokenizer))
    if unknown_note is not None:
        examples = replace(examples, notes=(*examples.notes, unknown_note))
    return objective_type(
        task,
        examples,
        HeldOutExamples(held_out, path=settings.eval, examples=dataset.held_out),
        batch_size=batch_size,
        num_shares=count_shares(batch_size, machine),
        seed=settings.seed,
    )


def compute_unknown_rate(encoded: EncodedExamples, tokenizer: Tokenizer) -> float:
    """Compute the share of unknown tokens in all rows, from 0 to 1."""
    unknown = UnknownTokens()
    unknown.add(encoded.rows.ids.flat, tokenizer)
    return unknown.rate
