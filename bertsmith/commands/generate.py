"""`bertsmith generate`: a text → the text and its continuation."""

from collections.abc import Sequence
from dataclasses import asdict

from bertsmith.commands.output import print_json
from bertsmith.commands.predict import decode_argument
from bertsmith.commands.settings.generate import Settings
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling
from bertsmith.lineage.text_generation import TextGenerator


def main(settings: Settings, line: Sequence[str]) -> None:
    """Print a text and its continuation.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    decoding = build_decoding(settings)
    generator = TextGenerator.load(settings.model, settings.device)
    text = decode_argument(settings.text)
    (result,) = generator([text], settings.max_new_tokens, decoding)
    if settings.json:
        print_json({"prompt": text, **asdict(result)})
    else:
        print(result.text)


def build_decoding(settings: Settings) -> Sampling | BeamSearch | None:
    """Build the decoding strategy of the settings; None means greedy decoding.

    Raises:
        SettingError: a value is out of range.
    """
    if settings.beams is not None:
        return BeamSearch(settings.beams, settings.length_penalty)
    values = {name: getattr(settings, name) for name in settings.given_sampling_settings}
    return Sampling(**values) if values else None
