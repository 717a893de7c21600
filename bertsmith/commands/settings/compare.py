"""Options of `bertsmith compare`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.comparison.settings import ComparisonSettings


@dataclass(frozen=True)
class Settings(ComparisonSettings):
    """Pre-train recipes under the same budget and seeds, fine-tune each, and compare.

    Writes one HTML page (comparison.html, also as JSON): eval curves, a table of mean ± standard
    deviation, and which differences are larger than noise. All models are measured on the same eval
    rows, however their own rows were made. To continue after an interruption, run the same command
    again; finished runs are kept. If a run fails, the others still run; the page names the failure,
    and the exit code is 2.

    A comparison file names recipes that share most settings, the budget, the seeds and the tasks;
    families, masks, pairs and positions are comparisons that come with bertsmith. Budget and seeds
    on the line replace those of the file; --device, --precision and --threads replace those of each
    recipe.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Recipes of `bertsmith pretrain`, and at most one comparison file (with the tables [recipes]
    or [tasks]). The first recipe is the baseline."""
    json: bool = False
    """Print one JSON object instead of a table."""


parse = partial(parse_settings, Settings)
