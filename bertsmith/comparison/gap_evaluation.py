"""Evaluation by gaps: windows of text in each of which one token is missing, equal for all models.

Masked LM (common_eval.py) measures only BERT and its relatives. Gaps measure every system that
predicts tokens, whether it reads only the text before the gap or also the text after it.
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
"""Seed of the windows and of their gaps."""
NUM_SPECIAL_TOKENS = 2
"""[CLS] and [SEP], around a window or sentence."""
NUM_GUESSES = 3
"""Number of tokens that are shown for a gap."""


@dataclass(frozen=True)
class GapEvaluation:
    """Evaluation by `num_rows` held-out windows of text, each with one missing token.

    A window has at most `max_length` tokens, [CLS] and [SEP] of BERT included.
    """

    held_out: Corpus
    max_length: int
    num_rows: int

    def __call__(self, model: TrainableModel) -> dict[str, float]:
        """Compute `gap_bits_per_byte` and `gap_accuracy` of a model in evaluation mode.

        The missing tokens are a sample of the held-out text: their mean negative log-probability
        stands for that of all its tokens, and is converted to bits per byte of the text. The result
        is empty for a model that predicts no tokens, or if no document is held out.
        """
        if not self.held_out.num_documents or not predicts_gaps(model):
            return {}
        tokenizer = self.held_out.tokenizer()
        all_labels = [gap.missing for gap in self._gaps]
        nats = 0.0
        num_right = num_done = 0
        for log_probs in gap_log_probs(model, tokenizer, self._gaps):
            labels = all_labels[num_done : num_done + len(log_probs)]
            rows = range(len(labels))
            nats -= float(log_probs[rows, labels].double().sum())
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
    # The sentence is encoded as a whole, since a mask token may include the space before it.
    ids = tokenizer.encode_ids(text)
    if text.count(tokenizer.mask_token) != 1 or ids.count(tokenizer.mask_id) != 1:
        raise ConfigError(
            f"sentences: found {text!r}. Each needs {tokenizer.mask_token} in place of one word."
        )
    position = ids.index(tokenizer.mask_id)
    return Gap(tuple(ids[:position]), tuple(ids[position + 1 :]))


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
            best_log_probs, best_ids = token_log_probs.topk(NUM_GUESSES)
            percents = (100 * best_log_probs.exp()).tolist()
            for ids_of_gap, percents_of_gap in zip(best_ids.tolist(), percents, strict=True):
                guesses.append(
                    [
                        GapGuess(tokenizer.decode([id_]), percent)
                        for id_, percent in zip(ids_of_gap, percents_of_gap, strict=True)
                    ]
                )
    return guesses
