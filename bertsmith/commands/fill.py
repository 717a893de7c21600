"""`bertsmith fill`: a text with [MASK] → the likeliest words for each [MASK]."""

from collections.abc import Sequence

from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.predict import decode_argument
from bertsmith.commands.settings.fill import Settings
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.system.counts import percent
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.mask_prediction import ScoredToken
from bertsmith.tasks.predictor import Predictor


def main(settings: Settings, line: Sequence[str]) -> None:
    """Print the likeliest words for each [MASK] of a text.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    filler = Predictor.load(
        settings.model, FillMask, device=settings.device, precision=settings.precision
    )
    print_note(filler.loaded.precision_note)
    filler.unknown_tokens.is_reported = True  # the warning is printed with the result
    text = decode_argument(settings.text)  # without bytes that are not UTF-8
    prediction = filler.with_options(top=settings.top)(text)
    warn_unknown(filler.unknown_tokens.rate, "the text")
    if prediction.is_truncated:
        print_note("The text is longer than the model reads; its end was cut off.")
    if settings.json:
        print_json({"text": text, **prediction.to_json()})
        return
    for number, words in enumerate(prediction.masks, start=1):
        print(
            f"{filler.loaded.tokenizer.mask_token} {number}: " + ", ".join(map(format_word, words))
        )


def format_word(word: ScoredToken) -> str:
    """Format a word and its probability; punctuation is quoted, since commas separate the words."""
    token = word.token.strip()
    shown = token if any(map(str.isalnum, token)) else f"'{token}'"
    return f"{shown} {percent(word.probability)}"
