"""The objective of an encoder–decoder on pairs of source and target, such as translations.

This file also encodes the pairs of a table.
"""

import copy
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch.nn.functional as F

from bertsmith.data.length_groups import group_by_length
from bertsmith.data.translation_pairs import TranslationReader
from bertsmith.errors import InputError, option
from bertsmith.lineage.encoder_decoder import EncoderDecoder
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.pretraining.objective import held_out_figures, terms_on_cpu
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import LossTerm, Objective

TERM = "write"
"""Name of the loss term, as in the journal's `held_out_write_loss`."""
EVALUATION_TOKENS = 8192
"""Largest number of tokens, sources and targets together, in a batch of the evaluation."""


@dataclass(frozen=True)
class EncodedPairs:
    """Token ids of sources and targets, each with the end token, and the rows of the table."""

    name: str
    """The name of the table that the pairs come from, for messages."""
    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    rows: Sequence[int]
    """The row of each pair in the table."""
    num_skipped: int = 0
    """Number of rows that were left out because they lacked a text or were too long."""

    def __len__(self) -> int:
        return len(self.sources)

    def first(self, count: int) -> "EncodedPairs":
        """Return the first `count` pairs."""
        return EncodedPairs(
            self.name, self.sources[:count], self.targets[:count], self.rows[:count]
        )

    @property
    def num_tokens(self) -> list[int]:
        """The number of tokens of each pair, source and target together."""
        pairs = zip(self.sources, self.targets, strict=True)
        return [len(source) + len(target) for source, target in pairs]

    def digest(self) -> str:
        """Compute the SHA-256 of the ids, as hexadecimal digits."""
        sha256 = hashlib.sha256()
        for pair in zip(self.sources, self.targets, strict=True):
            for ids in pair:
                sha256.update(np.asarray([len(ids), *ids], dtype=np.int64).tobytes())
        return sha256.hexdigest()


def encode_source(tokenizer: Tokenizer, text: str, end: int) -> list[int]:
    """Encode a text to its token ids and the id of the end token, as encoders read it."""
    return [*tokenizer.encode_ids(text), end]


def encode_pairs(
    reader: TranslationReader,
    tokenizer: Tokenizer,
    end: int,
    max_length: int,
    *,
    skip_long: bool = False,
    limit: int | None = None,
    advice: str = "",
) -> EncodedPairs:
    """Read and encode all pairs.

    Args:
        end: the token that ends sources and targets.
        max_length: maximum number of tokens of a source or target.
        skip_long: whether pairs with a longer text are left out and counted.
        limit: the number of pairs to read, from the first; None reads all.
        advice: the next step in the error about a pair that is too long; by default to change
            `max_length` or `skip_long`.

    Raises:
        InputError: the table cannot be read, or a text is too long.
    """
    sources, targets, rows = [], [], []
    num_long = 0
    advice = advice or (
        f"Give a larger {option('max_length')}, or pass {option('skip_long', True)} (skipped rows "
        "are counted)."
    )
    for pair in reader.first(limit):
        source, target = (encode_source(tokenizer, text, end) for text in pair.content)
        longest = max(len(source), len(target))
        if longest > max_length:
            if skip_long:
                num_long += 1
                continue
            name = "source" if longest == len(source) else "target"
            raise InputError(
                f"{reader.locate_row(pair.row)}: the {name} has {longest} tokens, and at most "
                f"{max_length} are allowed. {advice}"
            )
        sources.append(source)
        targets.append(target)
        rows.append(pair.row)
    if not sources:
        raise InputError(
            f"{reader.source_name}: all rows are longer than {max_length} tokens. Give a larger "
            f"{option('max_length')}."
        )
    return EncodedPairs(reader.source_name, sources, targets, rows, reader.num_skipped + num_long)


def target_loss(
    model: EncoderDecoder, batch: SourceTarget, label_smoothing: float = 0.0
) -> LossTerm:
    """Compute the summed cross entropy of the targets, in nats, and count right predictions."""
    logits = model.compute_logits(model.decode(batch)).float()
    loss = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=label_smoothing)
    correct = (logits.argmax(-1) == batch.labels).sum()
    return LossTerm(loss, correct, len(batch.labels))


class Translation(Objective[EncoderDecoder, SourceTarget]):
    """The objective of an encoder–decoder over pairs.

    Args:
        train: the pairs to learn from.
        held_out: the pairs to evaluate on.
        start: the token that the decoder reads first.
        batch_size: pairs per step.
        micro_batch_size: pairs per forward pass.
        seed: determines the order of the pairs, which differs between epochs.
        label_smoothing: the share ε of the target's probability that is spread evenly over all
            tokens (Szegedy et al. 2016). With nll for a negative log-probability, the loss is
            (1 - ε)·nll of the target + ε·mean nll of all tokens, as in
            `torch.nn.functional.cross_entropy`. Eval losses are computed without smoothing.
        eval_rows: number of pairs that are evaluated.
    """

    def __init__(
        self,
        train: EncodedPairs,
        held_out: EncodedPairs,
        start: int,
        *,
        batch_size: int,
        micro_batch_size: int | None = None,
        seed: int = 0,
        label_smoothing: float = 0.0,
        eval_rows: int = 512,
    ) -> None:
        self.train = train
        self.held_out = held_out
        self.start = start
        self.batch_size = batch_size
        self.micro_batch_size = micro_batch_size or batch_size
        self.seed = seed
        self.label_smoothing = label_smoothing
        self.eval_rows = eval_rows
        self._orders: dict[int, np.ndarray] = {}

    @property
    def num_held_out(self) -> int:
        return len(self.held_out)

    def resized(self, batch_size: int, eval_rows: int) -> Self:
        """Return a copy with other numbers of pairs in a step and in an evaluation."""
        other = copy.copy(self)
        other.batch_size = batch_size
        other.eval_rows = eval_rows
        return other

    def num_micro_batches(self, step: int) -> int:
        return math.ceil(self.batch_size / self.micro_batch_size)

    def micro_batch(self, step: int, index: int) -> SourceTarget:
        first = index * self.micro_batch_size
        step_indices = range(first, min(first + self.micro_batch_size, self.batch_size))
        begin = (step - 1) * self.batch_size
        indices = [self._pair_index(begin + step_index) for step_index in step_indices]
        return self._collate(self.train, indices, step_indices)

    def _pair_index(self, position: int) -> int:
        """Return the index of the pair at a position of the run, from 0.

        The epochs follow each other, and each has all pairs in an order of its own.
        """
        epoch, index = divmod(position, len(self.train))
        order = self._orders.get(epoch)
        if order is None:
            order = np.random.default_rng([self.seed, epoch]).permutation(len(self.train))
            # The order of the previous epoch is kept, too: another thread may need it now.
            orders = {epoch: order}
            previous = self._orders.get(epoch - 1)
            if previous is not None:
                orders[epoch - 1] = previous
            self._orders = orders
        return int(order[index])

    def _collate(
        self, pairs: EncodedPairs, indices: Sequence[int], step_indices: Sequence[int] = ()
    ) -> SourceTarget:
        return SourceTarget.of(
            [pairs.sources[index] for index in indices],
            [pairs.targets[index] for index in indices],
            self.start,
            step_indices,
        )

    def counts(self, batch: SourceTarget) -> dict[str, int]:
        """Count the tokens of the targets."""
        return {TERM: len(batch.labels)}

    def losses(self, model: EncoderDecoder, batch: SourceTarget) -> dict[str, LossTerm]:
        """Compute the summed cross entropy, in nats, and the number of right predictions."""
        return self._losses(model, batch, self.label_smoothing if model.training else 0.0)

    def _losses(
        self, model: EncoderDecoder, batch: SourceTarget, smoothing: float
    ) -> dict[str, LossTerm]:
        return {TERM: target_loss(model, batch, smoothing)}

    @property
    def evaluation(self) -> Self:
        """The object that evaluates: the objective itself, as it has the eval pairs."""
        return self

    def evaluate_part(
        self, model: EncoderDecoder, part: int, num_parts: int
    ) -> list[dict[str, LossTerm]]:
        """Compute the loss terms of every `num_parts`-th eval batch, from batch `part` on."""
        batches = self.held_out_batches(model, part, num_parts)
        return [terms_on_cpu(self._losses(model, batch, 0.0)) for batch in batches]

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute loss (nats) and accuracy of target tokens on the eval pairs.

        Args:
            results: the results of `evaluate_part` for each part, each computed by one process.
        """
        return held_out_figures(interleave(results))

    def held_out_batches(
        self, model: EncoderDecoder, part: int = 0, num_parts: int = 1
    ) -> Iterator[SourceTarget]:
        """Yield every `num_parts`-th eval batch from batch `part` on, on the model's device."""
        pairs = self.held_out.first(self.eval_rows)
        for indices in group_by_length(pairs.num_tokens, EVALUATION_TOKENS)[part::num_parts]:
            yield self._collate(pairs, indices).to(model.device)

    def describe(self, step: int) -> str:
        """List the rows of a step's pairs, for messages."""
        begin = (step - 1) * self.batch_size
        indices = [self._pair_index(begin + index) for index in range(self.batch_size)]
        rows = ", ".join(str(self.train.rows[index]) for index in indices)
        return f"{self.train.name}, rows {rows}"

    def identity(self) -> Mapping[str, Any]:
        """Return checksums of the data, by which a resumed run knows that it has not changed."""
        return {
            "objective": TERM,
            "train_sha256": self.train.digest(),
            "held_out_sha256": self.held_out.digest(),
        }

    def facts(self) -> dict[str, Any]:
        """Return the numbers of pairs and of tokens."""
        return {
            "num_train": len(self.train),
            "num_eval": len(self.held_out),
            "num_skipped": self.train.num_skipped,
            "num_eval_skipped": self.held_out.num_skipped,
            "train_tokens": sum(self.train.num_tokens),
        }
