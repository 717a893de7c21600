"""Options of `bertsmith compress`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.first_word import defer_until_model_is_known
from bertsmith.compression.settings import CompressSettings


@dataclass(frozen=True)
class Settings(CompressSettings):
    """Make a model smaller: fewer layers, or fewer tokens.

    Choose one of the two; for both, compress the new folder again. The new folder works with the
    same commands as the model's own. The command prints parameters, size of the weights, speed and,
    with --data or --corpus, scores, before and after.
    """

    json: bool = False
    """Print one JSON object instead of text."""


# Which flags exist depends on the model's task. So `parse` returns the words of a line that names a
# model as they are, and `main` in commands/compress.py parses them, by `parse_for_folder`.
parse = partial(defer_until_model_is_known, Settings)
