"""Evaluation by gaps: one missing token in each of some text windows, the same for all models.

Unlike masked LM on common rows, this measures every system that predicts tokens, whether it reads
only the text before the gap or also the text behind it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError
from bertsmith.lineage.corpus_objective import bits_per_byte
from bertsmith.lineage.gaps import Gap, gap_log_probs, predicts_gaps
from bertsmith.lineage.generation import evaluating
from bertsmith.lineage.text_windows import TextWindows
from bertsmith.model.trainable import TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer

SEED = 0
NUM_SPECIAL_TOKENS = 2
NUM_GUESSES = 3


@dataclass(frozen=True)
class GapEvaluation:
    """Evaluation by `num_rows` held-out windows of text, each with one missing token.

    A window has at most `max_length` tokens, [CLS] and [SEP] of BERT included.
    """

    held_out: Corpus
    max_length: int
    num_rows: int

    def __call__(self, model: TrainableModel) -> dict[str, float]:
        """Compute `gap_bits_per_byte` and `gap_accuracy`.

        The mean negative log-probability of the missing tokens is taken as that of all tokens of
        the held-out text, and converted to bits per byte of this text. The result is empty for a
        model that predicts no tokens, or if no document is held out.
        """
        if not self.held_out.num_documents or not predicts_gaps(model):
            return {}
        tokenizer = self.held_out.tokenizer()
        all_labels = [gap.missing for gap in self._gaps]
        nats = 0.0
        num_right = num_done = 0
        for log_probs in gap_log_probs(model, tokenizer, self._gaps):
            labels = all_labels[num_done : num_done + len(log_probs)]
            nats -= float(log_probs[range(len(labels)), labels].double().sum())
            num_right += int((log_probs.argmax(-1).cpu().numpy() == labels).sum())
            num_done += len(labels)
        return {
            "gap_bits_per_byte": bits_per_byte(nats / num_done, self.held_out),
            "gap_accuracy": num_right / num_done,
        }

    @cached_property
    def _gaps(self) -> list[Gap]:
        windows = TextWindows(self.held_out, self.max_length - NUM_SPECIAL_TOKENS, SEED)
        rng = np.random.default_rng(SEED)
        gaps = []
        for window in windows.read(0, self.num_rows):
            position = int(rng.integers(len(window.ids)))
            ids = window.ids.tolist()
            gaps.append(Gap(tuple(ids[:position]), tuple(ids[position + 1 :]), ids[position]))
        return gaps


@dataclass(frozen=True)
class GapGuess:
    """A token that a model proposes for a gap, with its probability in percent."""

    token: str
    percent: float


def read_sentence(tokenizer: Tokenizer, text: str) -> Gap:
    """Encode a sentence with one mask token.

    Raises:
        ConfigError: the sentence has no mask token, or several.
    """
    before, mask, after = text.partition(tokenizer.mask_token)
    if not mask or tokenizer.mask_token in after:
        raise ConfigError(
            f"sentences: found {text!r}. Each needs {tokenizer.mask_token} in place of one word."
        )
    return Gap(tuple(tokenizer.encode_ids(before)), tuple(tokenizer.encode_ids(after)))


def check_fits(gap: Gap, max_length: int) -> None:
    """Check that a sentence has at most `max_length` tokens, [CLS] and [SEP] included.

    Raises:
        ConfigError: the sentence has more.
    """
    length = len(gap.before) + 1 + len(gap.after) + NUM_SPECIAL_TOKENS
    if length > max_length:
        raise ConfigError(
            f"sentences: found one of {length} tokens; allowed are {max_length}, the shortest "
            "max_length of all recipes. Shorten it, or train on longer rows."
        )


def fill_gaps(
    model: TrainableModel, tokenizer: Tokenizer, gaps: Sequence[Gap]
) -> list[list[GapGuess]]:
    """Return the `NUM_GUESSES` likeliest tokens for each gap, without special tokens.

    The lists are empty for a model that predicts no tokens.
    """
    if not predicts_gaps(model):
        return [[] for _ in gaps]
    special = sorted(tokenizer.special_ids)
    guesses = []
    with evaluating(model):
        for log_probs in gap_log_probs(model, tokenizer, gaps):
            # The embedding table of a model may have more rows than its vocabulary has tokens.
            token_log_probs = log_probs[:, : tokenizer.vocab_size]
            token_log_probs[:, special] = -math.inf
            values, ids = token_log_probs.topk(NUM_GUESSES)
            percents = (100 * values.exp()).tolist()
            for row_percents, row_ids in zip(percents, ids.tolist(), strict=True):
                row = zip(row_ids, row_percents, strict=True)
                guesses.append([GapGuess(tokenizer.decode([id_]), percent) for id_, percent in row])
    return guesses
