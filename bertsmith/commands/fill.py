"""`bertsmith fill`: a text with [MASK] → the likeliest words for each of them."""

import json as json_module
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.commands.predict import as_characters
from bertsmith.system.compute import InferenceCompute
from bertsmith.tasks.fill_mask import MaskFiller, Word


def main(
    model: tyro.conf.Positional[Path],
    text: tyro.conf.Positional[str],
    top: int = 5,
    compute: Annotated[InferenceCompute, tyro.conf.arg(name="")] = InferenceCompute(),  # noqa: B008 - frozen
    json: bool = False,
) -> None:
    """Fill in the hidden words of a text with a pre-trained BERT.

    Write [MASK] (for RoBERTa, <mask>) where a word is to be guessed. This shows what a model knows
    of your language before it is fine-tuned.

    Args:
        model: Folder of a pre-trained model.
        text: A text with [MASK] in one or more places, in quotes.
        top: Number of words to show for each [MASK].
        json: Print one JSON object instead of text.
    """
    filler = MaskFiller.load(model, device=compute.device, precision=compute.precision)
    if note := filler.loaded.precision_note:
        print(note, file=sys.stderr)
    text = as_characters(text)
    masks = filler(text, top)
    if json:
        rows = [[asdict(word) for word in words] for words in masks]
        print(json_module.dumps({"text": text, "masks": rows}, ensure_ascii=False))
        return
    for number, words in enumerate(masks, start=1):
        print(f"{filler.loaded.tokenizer.mask_token} {number}: " + ", ".join(map(shown, words)))


def shown(word: Word) -> str:
    return f"{word.token} {word.probability:.1%}"
