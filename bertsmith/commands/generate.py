"""`bertsmith generate`: a text → the text and its continuation."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from bertsmith.commands.predict import decode_argument
from bertsmith.commands.settings.generate import Settings
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling
from bertsmith.lineage.text_generation import TextGenerator


def main(settings: Settings, line: Sequence[str]) -> None:
    choice = choose_tokens_by(settings)
    generator = TextGenerator.load(settings.model, settings.device)
    text = decode_argument(settings.text)
    (result,) = generator([text], settings.max_new_tokens, choice)
    if settings.json:
        print(json.dumps({"prompt": text, **asdict(result)}, ensure_ascii=False))
    else:
        print(result.text)


def choose_tokens_by(settings: Settings) -> Sampling | BeamSearch | None:
    """Return how tokens are chosen; None for the likeliest one each time.

    Raises:
        SettingError: a value is out of range.
    """
    if settings.beams is not None:
        return BeamSearch(settings.beams, settings.length_penalty)
    values = {name: getattr(settings, name) for name in settings.drawing}
    return Sampling(**values) if values else None
