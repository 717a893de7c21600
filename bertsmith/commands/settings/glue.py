"""Settings of `bertsmith glue`."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_with_recipe
from bertsmith.finetuning.settings import GlueSettings


@dataclass(frozen=True)
class Settings(GlueSettings):
    """Fine-tune a BERT to every task of GLUE in a folder, and score it.

    Prints a table of the official scores, mean ± standard deviation over the seeds, and the
    average. To continue after an interruption, run the same command again; finished runs are kept.
    If a task has a test file (test.tsv), the predictions of the best seed are written in the format
    of the benchmark's site.
    """

    json: bool = False
    """Print one JSON object instead of a table."""


parse = partial(parse_with_recipe, Settings, kind="glue")
