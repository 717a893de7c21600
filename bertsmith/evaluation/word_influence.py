"""Influence of each word on a classifier's answer: the answer's probability without the word.

Zeiler and Fergus 2014, "Visualizing and Understanding Convolutional Networks", hide parts of an
image in this way; Li et al. 2016, "Understanding Neural Networks through Representation Erasure",
hide words.
"""

from collections.abc import Sequence
from dataclasses import replace

from bertsmith.data.examples import Example
from bertsmith.pages.page import unbroken_percent
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.marks import WRONG, Mark, MarkedPart, mark_spans
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.tokenizer import Tokenizer

MAX_WORDS = 80
"""Largest number of words of a text that are masked, from the first. Each adds one text to predict.
"""
NUM_MARKED = 3
"""Largest number of words that are marked in a text."""
MAX_ODDS_LEFT = 0.75
"""A word is marked if masking it leaves at most this fraction of the answer's odds. Odds are used
because a single word hardly changes a probability of 99 %."""
CONTEXT_CHARS = 100
"""Number of characters shown beside each marked word."""


def mark_influential(
    predictor: Predictor[Classify], examples: Sequence[Example]
) -> list[list[MarkedPart]]:
    """Mark in each text the words whose masking lowers the answer's probability most.

    The answer is the label that the model predicts for the whole text. A mark shows the probability
    of the answer when the word is masked. The result has the marked and other parts of each text.
    """
    marked_texts = []
    with progress_bar("looking for the words that decide", len(examples)) as advance:
        for example in examples:
            parts = _mark_text(predictor, example, "text", example.text)
            if example.pair is not None:
                parts.append(MarkedPart(" | "))
                parts += _mark_text(predictor, example, "pair", example.pair)
            marked_texts.append(parts)
            advance(1)
    return marked_texts


def _mark_text(
    predictor: Predictor[Classify], example: Example, name: str, text: str
) -> list[MarkedPart]:
    """Mark the words of one text of an example; `name` is its field, "text" or "pair"."""
    tokenizer = predictor.loaded.tokenizer
    spans = word_spans(tokenizer, text)[:MAX_WORDS]
    masked = [
        replace(example, **{name: text[:start] + tokenizer.mask_token + text[end:]})  # type: ignore[arg-type]
        for start, end in spans
    ]
    prediction, *masked_predictions = predictor.predict([example, *masked])
    probabilities = [each.probabilities[prediction.label] for each in masked_predictions]
    max_odds = MAX_ODDS_LEFT * _odds(prediction.probability)
    lowest = sorted(zip(probabilities, spans, strict=True))[:NUM_MARKED]
    marks = [
        # WRONG is the color of the marks: these are words of a wrong answer.
        Mark(*span, unbroken_percent(probability), WRONG)
        for probability, span in lowest
        if _odds(probability) <= max_odds
    ]
    return mark_spans(text, marks, CONTEXT_CHARS)


def _odds(probability: float) -> float:
    """Return p / (1 - p), a large finite number if p is 1."""
    return probability / max(1 - probability, 1e-12)


def word_spans(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text, in characters; the end is exclusive.

    Each Chinese character is a word.
    """
    encoding = tokenizer.encode(text)
    spans: list[tuple[int, int]] = []
    for id_, (start, end), is_special in zip(
        encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True
    ):
        if is_special:
            continue
        if spans and tokenizer.continues_word[id_]:  # such as "##ing"
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans
