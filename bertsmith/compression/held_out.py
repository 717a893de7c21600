"""Evaluate a pre-trained model and its smaller copy on a corpus."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.errors import CheckpointError, option
from bertsmith.evaluation.side_by_side import Measure
from bertsmith.model.bert import BertModel
from bertsmith.model.head_names import PAIR_HEADS
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.pair_task import load_pair_task
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.tokenization.tokenizer import Tokenizer

MAX_ROW_TOKENS = 128
"""Most tokens of a row of held-out text."""

FORWARD_ROWS = 32
"""Rows in a forward pass."""


def open_corpus(path: Path, tokenizer: Tokenizer) -> Corpus:
    """Open the training split of a corpus, which must have been built with this tokenizer.

    Raises:
        CheckpointError: the corpus was built with another tokenizer.
    """
    corpus = Corpus.open(path)
    # A fingerprint is a hash of a tokenizer's vocabulary and settings.
    if corpus.tokenizer_fingerprint != tokenizer.fingerprint:
        raise CheckpointError(
            f"{path}: built with another tokenizer than the model's (fingerprint "
            f"{corpus.tokenizer_fingerprint[:12]}, the model has {tokenizer.fingerprint[:12]}). "
            f"Build it again with {option('tokenizer')} and the model's folder."
        )
    return corpus


def corpus_objective(path: Path, model: BertModel, tokenizer: Tokenizer) -> Pretraining:
    """Build the pre-training objective that fits the heads of a model.

    It is masked LM. A pair task, such as next sentence prediction, is added if the model has a head
    for it and the corpus has pairs of sentences.

    Args:
        path: a folder of `bertsmith corpus build`.
        model: a model with the head `masked_lm`.

    Raises:
        CheckpointError: the corpus was built with another tokenizer.
    """
    corpus = open_corpus(path, tokenizer)
    pair_head = next((name for name in PAIR_HEADS if name in model.heads), "none")
    task = load_pair_task(pair_head)
    pairs = pair_head if task is not None and task.has_pairs(corpus) else "none"
    max_length = min(MAX_ROW_TOKENS, model.config.max_length)
    return Pretraining(
        corpus,
        Corpus.open(path, "held_out"),
        PretrainingSettings(max_length=max_length, pairs=pairs),
        batch_size=1,  # of training steps, of which there are none
        micro_batch_size=FORWARD_ROWS,
    )


def measure_held_out(objective: Pretraining, kept_ids: Tensor | None, unk_id: int) -> Measure:
    """Build a function that measures any model on the same held-out rows.

    For a model whose vocabulary has only the tokens of `kept_ids`, the ids in the rows are replaced
    by the ids of that vocabulary. Other models, such as the original, read the rows unchanged.

    Args:
        objective: gives the rows, in ids of the whole vocabulary, and computes losses.
        kept_ids: int64 `[kept]`, ascending; None if all are kept.
        unk_id: old id of [UNK], which replaces all ids that are not kept.
    """

    def measure(model: BertModel) -> dict[str, float]:
        batches = objective.held_out_batches(model)
        if kept_ids is not None and model.config.vocab_size == len(kept_ids):
            batches = (_in_kept_ids(batch, kept_ids, unk_id) for batch in batches)
        return objective.evaluate_on(model, batches)

    return measure


def _in_kept_ids(batch: Batch, kept_ids: Tensor, unk_id: int) -> Batch:
    """Map the ids of a batch to those in the smaller vocabulary; dropped tokens become [UNK]."""

    def remap(ids: Tensor) -> Tensor:
        ids_or_unk = torch.where(torch.isin(ids, kept_ids), ids, unk_id)
        return torch.searchsorted(kept_ids, ids_or_unk)

    targets = {**batch.targets, "masked_labels": remap(batch.targets["masked_labels"])}
    return replace(batch, input_ids=remap(batch.input_ids), targets=targets)
