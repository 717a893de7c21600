"""Log-likelihoods of sentences by a model that reads from left to right, for minimal pairs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from bertsmith.data.batches import group_by_length, pack
from bertsmith.errors import InputError, SettingError
from bertsmith.lineage.generation import reading
from bertsmith.lineage.text_generation import TextGenerator
from bertsmith.model.masked_lm_loss import token_log_probs
from bertsmith.tasks.pair_scores import MinimalPair, PairScores

LEFT_TO_RIGHT = ("gpt2", "recurrent")
"""The `model_type` of such models."""
TOKENS_AT_ONCE = 4096


class SentenceScorer:
    """Scores a sentence by the sum of the log-probabilities of its tokens, each after those before.

    A start token is read, but not scored; without one, the first token is not scored either.
    """

    def __init__(self, generator: TextGenerator, max_length: int | None = None) -> None:
        self.generator = generator
        limits = [each for each in (max_length, generator.longest) if each is not None]
        self.longest = min(limits, default=None)
        """The most tokens of a sentence, the start token included; None without a limit."""
        self.num_tokens = self.num_unknown = 0

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", *, max_length: int | None = None) -> Self:
        """Load a folder, or a model of the Hugging Face hub, as `TextGenerator.load` does.

        Args:
            max_length: the most tokens of a sentence; by default as many as the model reads.

        Raises:
            ConfigError: `max_length` is below 2.
        """
        if max_length is not None and max_length < 2:
            raise SettingError("max_length", max_length, "2 or more")
        return cls(TextGenerator.load(path, device), max_length)

    def predict(self, pairs: Sequence[MinimalPair]) -> list[PairScores]:
        """Score both sentences of each pair; a sentence that is too long is cut.

        Raises:
            InputError: a sentence has no token.
        """
        texts = [text for pair in pairs for text in pair.content]
        rows = [self.generator.encode_prompt(text) for text in texts]
        for index, row in enumerate(rows):
            if len(row) < 2:
                name = ("sentence_good", "sentence_bad")[index % 2]
                raise InputError(
                    f"row {pairs[index // 2].row}: '{name}' has too few tokens to score. Fix the "
                    "row, or leave it out."
                )
        longest = self.longest
        scores = self._score([row[:longest] for row in rows])
        unknown = self.generator.tokenizer.unk_id
        self.num_tokens += sum(map(len, rows))
        self.num_unknown += sum(row.count(unknown) for row in rows)
        results = []
        for index in range(0, len(rows), 2):
            first, second = rows[index], rows[index + 1]
            is_cut = longest is not None and max(len(first), len(second)) > longest
            good, bad = scores[index], scores[index if first == second else index + 1]
            results.append(PairScores(good, bad, first == second, is_cut))
        return results

    def _score(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Compute the log-likelihood of each row, in nats."""
        model = self.generator.model
        scores = np.zeros(len(rows))
        with reading(model):
            for group in group_by_length([len(row) for row in rows], TOKENS_AT_ONCE):
                batch = pack([np.array(rows[i], dtype=np.int64) for i in group]).to(model.device)
                is_last = np.zeros(batch.num_tokens, dtype=bool)
                is_last[np.cumsum(batch.lengths) - 1] = True
                places = torch.from_numpy(np.flatnonzero(~is_last)).to(model.device)
                hidden = model.encode(batch).index_select(0, places)
                weight = model.word.weight
                labels = batch.input_ids.index_select(0, places + 1)
                values = token_log_probs(hidden, weight, weight.new_zeros(len(weight)), labels)
                sizes = [length - 1 for length in batch.lengths]
                parts = np.split(values.double().cpu().numpy(), np.cumsum(sizes)[:-1])
                for place, part in zip(batch.order, parts, strict=True):
                    scores[group[place]] = part.sum()
        return [float(score) for score in scores]
