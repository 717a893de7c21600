"""The parts of a page's data as plain JSON values: tokens, weights, decisions, statistics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.inspection.decisions import Decision
from bertsmith.inspection.head_statistics import STATISTICS, HeadStatistics
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownPiece, format_token
from bertsmith.tokenization.tokenizer import Tokenizer

ALPHABET = "".join(chr(code) for code in range(32, 127) if chr(code) not in '<&\\"')
"""Characters that stand for attention weights; none of them must be escaped in JSON or HTML."""
MAX_SHOWN_CHARACTERS = 200
"""Largest number of characters of a label or an answer, and of the part of a text that the model
does not read."""
MAX_LENS_WORDS = 3
"""Number of words that the lens shows for each token and layer, the likeliest ones."""


def plain_piece(piece: ShownPiece) -> list[Any]:
    """Return the fields of a token as a list, in their order; a `part` of None becomes -1."""
    part = -1 if piece.part is None else piece.part
    return [piece.token, part, piece.start, piece.end, piece.word]


def format_weights(attentions: Sequence[Tensor]) -> str:
    """Write attention weights as one character each, in the order [layers, heads, rows, columns].

    The character with index k in `ALPHABET`, 0 to 90, stands for the weight (k / 90)^2: so small
    weights are rounded more finely than large ones.
    """
    steps = len(ALPHABET) - 1
    levels = torch.stack(list(attentions)).clamp(0, 1).sqrt().mul(steps).round()
    codes = np.frombuffer(ALPHABET.encode("ascii"), dtype=np.uint8)
    return codes[levels.to(torch.uint8).numpy()].tobytes().decode("ascii")


def plain_decision(decision: Decision) -> dict[str, Any]:
    """Return a decision; long texts are shortened."""
    span = None
    if decision.part is not None:
        span = [decision.part, decision.start, decision.end]
    return {
        "label": clipped(decision.label),
        "value": rounded(decision.value),
        "text": clipped(decision.text),
        "span": span,
        "color": decision.color,
    }


def clipped(text: str) -> str:
    """Shorten a label or an answer to `MAX_SHOWN_CHARACTERS` characters."""
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def plain_attribution(result: Attribution | None) -> dict[str, Any] | None:
    """Return an attribution (what each token adds to a logit), or None where none was computed."""
    if result is None:
        return None
    return {
        "values": list(map(rounded, result.values.tolist())),
        "logit": rounded(result.logit),
        "baseline": rounded(result.baseline_logit),
        "error": rounded(result.error),
        "points": result.num_points,
    }


def likely_words(tokenizer: Tokenizer, logits: NDArray[np.float32]) -> list[Any]:
    """List the likeliest tokens of each position; `logits` are fp32 [positions, vocabulary]."""
    scores = torch.from_numpy(logits)
    values, ids = scores.topk(min(MAX_LENS_WORDS, scores.shape[1]))
    # These are softmax probabilities over all words, computed only for the words that are listed.
    probabilities = (values - scores.logsumexp(-1, keepdim=True)).exp()
    words = {
        id_: format_token(tokenizer, id_, characters="") for id_ in set(ids.flatten().tolist())
    }
    likely = []
    for row_ids, row_probabilities in zip(ids.tolist(), probabilities.tolist(), strict=True):
        row = zip(row_ids, row_probabilities, strict=True)
        likely.append([[words[id_], rounded(probability)] for id_, probability in row])
    return likely


def plain_statistics(result: HeadStatistics, source: str | None) -> dict[str, Any]:
    """Return statistics of heads; `source` names the file of texts, or is None for the one text."""
    return {
        "names": STATISTICS,
        "source": source,
        "numTexts": result.num_texts,
        "numTokens": result.num_tokens,
        "means": [[rounded(x) for x in head] for layer in result.means.tolist() for head in layer],
    }


def rounded(value: float) -> float:
    """Round to four significant digits, which is finer than the page shows."""
    return float(f"{value:.4g}")
