"""Settings of a comparison."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from bertsmith.errors import SettingError
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced, Compute


@dataclass(frozen=True)
class ComparisonSettings(Compute):
    """Recipes, corpus, budget, seeds and output folder of a comparison."""

    files: tuple[Path, ...]
    """Recipe files of `bertsmith pretrain`, and at most one comparison file (with the tables
    [recipes] or [tasks]). Every other recipe is compared with the first one."""
    corpus: Path
    """Corpus folder, written by `bertsmith corpus build`: the same for all recipes."""
    out: Path
    """Output folder for the runs and the page. The same command continues a stopped comparison:
    complete runs are not repeated."""
    data: Path = Path()
    """Folder that holds the tasks' files; the current folder by default."""
    minutes: float | None = None
    """Budget in minutes for each recipe, evaluations included. Give one of the four budgets."""
    tokens: float | None = None
    """Budget in tokens for each recipe, special tokens included."""
    flops: float | None = None
    """Budget in floating-point operations of matrix products for each recipe."""
    steps: float | None = None
    """Budget in steps: updates of the weights for each recipe."""
    seeds: int | None = None
    """Number of seeds: each recipe runs once with each seed. By default the number of the
    comparison file."""
    eval_rows: int | None = None
    """Number of eval rows in each evaluation of a run. By default 512, in ten evaluations. Short
    runs have fewer rows and evaluations, so that these take at most a twentieth of the time."""
    final_rows: int | None = None
    """Number of eval rows of each kind, of one segment and of two, on which the finished models are
    measured. By default 4,096; after short runs fewer, but at least 256."""
    measure_memory: Advanced[bool] = True
    """Measure the peak memory of each recipe once, on a CPU, after all runs. A new process trains
    20 steps for it, which takes some seconds."""

    @property
    def given_compute(self) -> dict[str, Any]:
        """The compute settings that replace those of each recipe: all but defaults.

        So a default that the user gives, such as `--precision auto`, does not replace the recipe's.
        """
        values = {field.name: getattr(self, field.name) for field in fields(Compute)}
        return {name: value for name, value in values.items() if value != getattr(Compute, name)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_upper_limits(self)
        for name in ("eval_rows", "final_rows"):
            rows = getattr(self, name)
            if rows is not None and rows < 1:
                raise SettingError(name, rows, "1 or more")
