"""Options of `bertsmith glue`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_with_recipe
from bertsmith.finetuning.glue_settings import GlueSettings


@dataclass(frozen=True)
class Settings(GlueSettings):
    """Fine-tune a BERT once per seed for each task of GLUE in a folder, and score the results.

    Prints a table of each task's official scores on its development files, mean ± standard
    deviation over the seeds, and the average over the tasks. To continue after an interruption, run
    the same command again; finished runs are kept. For each test file (test.tsv; for MNLI
    test_matched.tsv, test_mismatched.tsv and the diagnostic set), the predictions of the task's
    best seed are written in the format of the benchmark's site.
    """

    json: bool = False
    """Print one JSON object instead of a table."""


parse = partial(parse_with_recipe, Settings, kind="glue")
