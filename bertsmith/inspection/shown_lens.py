"""The logit lens on the page: the prediction of each layer, for each token or for the text."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.inspection.decisions import TextDecisions, decide_at_layers, head_name
from bertsmith.inspection.head_outputs import pack_copies
from bertsmith.inspection.lens import iter_lens
from bertsmith.inspection.plain_values import MAX_LENS_WORDS, clipped, likely_words, rounded
from bertsmith.tasks.predictor import Predictor


def show_lens(predictor: Predictor[Any], decided: TextDecisions) -> dict[str, Any] | None:
    """Return what each layer would predict for a text, embeddings first, as plain JSON values.

    With the key `tokens`, each layer has for each token a list of the likeliest words or labels
    with their probabilities, or None; with `decisions`, it has such a list for the text. The result
    is None for a model without a head.

    Args:
        decided: the text, with its vectors in each layer.
    """
    head, shown, model = head_name(predictor), decided.shown, predictor.model
    if head is None:
        return None
    batch = pack_copies(model, shown.ids, shown.type_ids)
    layers: Iterator[NDArray[np.float32]] = (
        np.asarray(logits.numpy(), dtype=np.float32)
        for logits in iter_lens(model, head, decided.layers, batch, range(len(shown.ids)))
    )
    if head == "masked_lm":
        tokenizer = predictor.tokenizer  # the embedding may have further rows, without a token
        in_vocabulary = (logits[:, : tokenizer.vocab_size] for logits in layers)
        return {"tokens": [likely_words(tokenizer, logits) for logits in in_vocabulary]}
    if head == "replaced_token":  # that of an ELECTRA
        return {"tokens": [_replaced_probabilities(logits) for logits in layers]}
    if head == "tag":
        word_starts = set(shown.encoded.alignment[0].tokens.tolist() if shown.example.words else [])
        return {"tokens": [_likely_labels(predictor, logits, word_starts) for logits in layers]}
    decisions = decide_at_layers(predictor, decided, list(layers))
    return {
        "decisions": [
            [
                [clipped(decision.text or decision.label), rounded(decision.value)]
                for decision in layer
            ]
            for layer in decisions
        ]
    }


def _replaced_probabilities(logits: NDArray[np.float32]) -> list[Any]:
    """List for each token the probability that it was replaced, without a label."""
    probabilities = torch.from_numpy(logits).flatten().sigmoid().tolist()
    return [[["", rounded(probability)]] for probability in probabilities]


def _likely_labels(
    predictor: Predictor[Any], logits: NDArray[np.float32], word_starts: set[int]
) -> list[Any]:
    """List the likeliest labels of each token that begins a word; None for the others."""
    names = predictor.definition.labels
    probabilities = torch.from_numpy(logits).softmax(-1)
    values, numbers = probabilities.topk(min(MAX_LENS_WORDS, len(names)))
    likely: list[Any] = [None] * len(logits)
    for position in word_starts:
        row = zip(numbers[position].tolist(), values[position].tolist(), strict=True)
        likely[position] = [[names[number], rounded(probability)] for number, probability in row]
    return likely
