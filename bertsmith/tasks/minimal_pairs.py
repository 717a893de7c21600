"""Minimal pairs: the likelihoods of a good and a bad sentence under a masked LM.

A minimal pair is two sentences that differ in one thing, which makes one of them wrong. A
sentence's score is its pseudo-log-likelihood: each token is masked in turn, and the
log-probabilities of the true tokens are summed (Salazar et al. 2020, section 2). Special tokens are
not scored. No fine-tuning is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.errors import InputError
from bertsmith.model.attention_pattern import FULL
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.tasks.inference import LoadedModel, compute_groups
from bertsmith.tasks.pair_scores import MinimalPair, PairScores
from bertsmith.tasks.prediction import InferenceTask, text_field
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class MinimalPairs(InferenceTask[MinimalPair, PairScores]):
    """Pseudo-log-likelihoods of both sentences of a pair (Salazar et al. 2020, section 2)."""

    tokenizer: Tokenizer

    pipeline = "minimal-pairs"  # a name of ours, since Hugging Face has no such pipeline
    heads = ("masked_lm",)
    example_type = MinimalPair
    fields = ("sentence_good", "sentence_bad")  # the keys of a pair that is given as a dictionary
    titles = ("log-likelihood, good", "log-likelihood, bad", "good sentence", "bad sentence")

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        return cls(loaded.tokenizer)

    def example(self, record: Mapping[str, Any]) -> MinimalPair:
        """Build a pair from the fields `sentence_good` and `sentence_bad`.

        Raises:
            InputError: a field is missing or no string.
        """
        good, bad = (text_field(record, name) for name in self.fields)
        return MinimalPair(good, bad, row=record.get("row", 0))

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[MinimalPair],
        max_length: int,
        *,
        labelled: bool,
    ) -> EncodedExamples:
        """Encode both sentences of each pair; `labelled` changes nothing, as there are no labels.

        Raises:
            InputError: a sentence has no token.
        """
        texts = ((text, None) for pair in examples for text in pair.content)
        rows = encode_texts(tokenizer, texts, max_length)
        num_special = tokenizer.num_special_tokens(1)  # those around one text, [CLS] and [SEP]
        for index, length in enumerate(rows.lengths):
            if length == num_special:
                raise InputError(
                    f"row {examples[index // 2].row}: '{self.fields[index % 2]}' has no token that "
                    "the model reads. Fix the row, or leave it out."
                )
        first_rows = 2 * np.arange(len(examples) + 1)  # each pair has two rows
        return EncodedExamples(rows, first_rows)

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> NDArray[np.float64]:
        rows = list(encoded.rows.ids)
        copies = MaskedCopies(rows, self.tokenizer.mask_id, masked_first=has_full_attention(model))
        scores = np.zeros(len(rows))
        # A group is copies of similar length, whose log-probabilities are computed together.
        for group, log_probs_of_group in compute_groups(
            model, copies.lengths, copies.pack, log_probs
        ):
            # A row has several copies in a group; `add.at` adds all of them.
            np.add.at(scores, copies.row[group], log_probs_of_group.numpy())
        return scores

    def decode(
        self,
        outputs: NDArray[np.float64],
        encoded: EncodedExamples,
        examples: Sequence[MinimalPair],
    ) -> list[PairScores]:
        """Compare both sentences of each pair; `outputs` are their log-likelihoods, `[rows]`."""
        rows = encoded.rows.ids
        pair_scores = []
        for index, num_cut in enumerate(encoded.num_cut):
            first, second = encoded.rows_of(index)
            is_identical = np.array_equal(rows[first], rows[second])
            good = float(outputs[first])
            # The sums of two rows of equal tokens may differ by rounding.
            bad = good if is_identical else float(outputs[second])
            pair_scores.append(PairScores(good, bad, is_identical, num_cut > 0))
        return pair_scores


class MaskedCopies:
    """Copies of token rows, each with another token masked.

    With `masked_first` the masked token and the first token of a copy change places, and both keep
    their position ids. So the last layer need only compute the first token of each copy. With full
    attention (each token sees all others) the result is the same, since it depends on position ids
    and not on the order of tokens in the row.

    Args:
        rows: token ids of each row, int32 `[tokens]`, with [CLS] first and [SEP] last.

    Attributes:
        row: the index of the row that each copy is made of, int64 `[copies]`.
        lengths: number of tokens of each copy.
    """

    def __init__(
        self, rows: Sequence[NDArray[np.int32]], mask_id: int, *, masked_first: bool
    ) -> None:
        self._masked_first = masked_first
        self._ids = np.concatenate(rows).astype(np.int64)
        self._row_lengths = np.array([len(row) for row in rows])
        self._row_starts = self._row_lengths.cumsum() - self._row_lengths
        self._mask_id = mask_id
        num_copies = self._row_lengths - 2  # without [CLS] and [SEP]
        first_copies = num_copies.cumsum() - num_copies
        # A row of n tokens has n - 2 copies, which follow one another.
        self.row = np.repeat(np.arange(len(rows)), num_copies)
        # The index in its row of each copy's masked token: 1, 2, ..., up to the one before [SEP].
        self._masked = 1 + np.arange(len(self.row)) - first_copies[self.row]
        self.lengths: list[int] = self._row_lengths[self.row].tolist()

    def pack(self, copies: Sequence[int]) -> Batch:
        """Pack copies that are sorted by length, longest first.

        Targets are `masked_positions` in the packed row and `masked_labels`, int64 `[copies]`.
        """
        rows = self.row[copies]
        masked = self._masked[copies]
        lengths = self._row_lengths[rows]
        # The indices, in the packed row, of each copy's first token and of its masked token.
        firsts = lengths.cumsum() - lengths
        masked_positions = firsts + masked
        position_ids = np.arange(lengths.sum()) - np.repeat(firsts, lengths)
        if self._masked_first:  # the masked token and the first one change places
            position_ids[masked_positions] = 0
            position_ids[firsts] = masked
            masked_positions = firsts
        # A token's position id is its index in its row of `self._ids`.
        input_ids = self._ids[np.repeat(self._row_starts[rows], lengths) + position_ids]
        labels = input_ids[masked_positions]
        input_ids[masked_positions] = self._mask_id
        return Batch(
            torch.from_numpy(input_ids),
            torch.zeros(len(input_ids), dtype=torch.int64),
            torch.from_numpy(position_ids),
            lengths=tuple(lengths.tolist()),
            order=tuple(range(len(copies))),
            targets={
                "masked_positions": torch.from_numpy(masked_positions),
                "masked_labels": torch.from_numpy(labels),
            },
        )


def log_probs(model: BertModel, batch: Batch) -> Tensor:
    """Compute the log-probability of each copy's masked token, fp32 `[copies]`."""
    head = cast(MaskedLMHead, model.heads["masked_lm"])
    if has_full_attention(model):
        # The masked token of each copy is its first one: `masked_first` was set.
        hidden = model.encode(batch, queries="first")
    else:
        hidden = model.encode(batch).index_select(0, batch.targets["masked_positions"])
    word_embedding = model.embeddings.word.weight.float()
    return head.log_probs(hidden.float(), word_embedding, batch.targets["masked_labels"])


def has_full_attention(model: BertModel) -> bool:
    """Return whether in every layer each token sees all others."""
    # The pattern of a layer is full or local attention. A layer without one counts as full.
    return all(getattr(layer, "pattern", FULL) == FULL for layer in model.layers)
