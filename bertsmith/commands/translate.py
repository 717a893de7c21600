"""`bertsmith translate`: texts → the texts that a model writes from them."""

from collections.abc import Sequence

from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.predict import decode_argument
from bertsmith.commands.settings.translate import Settings
from bertsmith.data.text_files import iter_lines
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.text_to_text_generation import TextToTextGenerator
from bertsmith.system.counts import count_noun


def main(settings: Settings, line: Sequence[str]) -> None:
    """Print what the model writes for each text: one line, or with --json one object, for each.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    beam_search = None
    if settings.beams is not None:
        beam_search = BeamSearch(settings.beams, settings.length_penalty)
    if settings.file is None:
        texts = list(map(decode_argument, settings.texts))  # without bytes that are not UTF-8
    else:
        texts = [text.rstrip("\r\n") for text in iter_lines(settings.file)]
    generator = TextToTextGenerator.load(settings.model, settings.device)
    targets = generator(texts, settings.max_new_tokens, beam_search)
    num_empty = 0
    for text, target in zip(texts, targets, strict=True):
        num_empty += bool(text.strip()) and not target
        if settings.json:
            print_json({"source": text, "target": target})
        else:
            print(target)
    if num_empty:
        num_texts = count_noun(len(texts), "text")
        print_note(f"The model wrote nothing for {num_empty:,} of {num_texts}.")
