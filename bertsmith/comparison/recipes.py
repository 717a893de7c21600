"""Recipes, budget, seeds and tasks of a comparison, from its files.

A comparison file (examples: `bertsmith/recipes/compare/`) has

- a budget and the number of `seeds`;
- the tables [shared.*], with settings of all recipes, as in a recipe of `bertsmith pretrain`;
- the tables [recipes.NAME], of which the first is the baseline. Their settings replace the shared
  ones, and those of the recipe file that `file` names. Length and seed of a recipe are ignored. A
  recipe with `system` (comparison/system_recipe.py) takes only [shared.training] and
  [shared.optim];
- the tables [tasks.NAME], as in a recipe of `bertsmith finetune`, with paths within --data.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertsmith.comparison.bert_recipe import BertRecipe
from bertsmith.comparison.budget import BUDGET_UNITS, ComparisonBudget, Unit, budget_of
from bertsmith.comparison.gap_evaluation import check_fits, read_sentence
from bertsmith.comparison.recipe import Recipe
from bertsmith.comparison.row_plan import RowPlan, plan_rows
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.comparison.system_recipe import SystemRecipe, read_system_job
from bertsmith.config import find_needs, from_mapping, read_recipe
from bertsmith.data.corpus import Corpus
from bertsmith.errors import BertsmithError, ConfigError, InputError, SettingError, option
from bertsmith.pretraining.job import OF_THE_COMMAND, PretrainJob
from bertsmith.system.bounds import LARGEST
from bertsmith.system.counts import count_noun
from bertsmith.tasks.catalog import task_named
from bertsmith.tasks.settings.finetune import NOT_GIVEN, FinetuneSettings
from bertsmith.tasks.task import Task
from bertsmith.training.run_config import flatten

SET_FOR_ALL_TASKS = (
    "model",
    "out",
    "seed",
    "seeds",
    "folds",
    "resume",
    "overwrite",
    "device",
    "precision",
    "threads",
    "from_scratch",
    "head",
    "average",
    "corpus",
    "cell",
    "preset",
)
"""Keys that the table of a task may not have, because the comparison sets them: each run fine-tunes
the whole model of its recipe."""

AnyRecipe = Recipe[Any]
SHARED_WITH_SYSTEMS = ("training", "optim")
"""Shared tables that also apply to recipes of systems beside BERT."""


@dataclass(frozen=True)
class _ComparisonFile:
    """The contents of a comparison file."""

    minutes: float | None = None
    tokens: float | None = None
    flops: float | None = None
    steps: float | None = None
    seeds: int | None = None
    shared: dict[str, Any] = field(default_factory=dict)
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    """Sentences with one mask token each; the page shows what each model predicts there."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedTask:
    """A named task with fine-tuning settings; model, folder and seed are set for each run."""

    name: str
    task: type[Task[Any, Any]]
    settings: FinetuneSettings

    def settings_of_run(self, pretrained: Path, seed: int) -> FinetuneSettings:
        """Return the settings with the model folder `pretrained`, a folder in it, and the seed."""
        out = pretrained / folder_name(self.name)
        return replace(self.settings, model=pretrained, out=out, seed=seed)


@dataclass(frozen=True)
class Comparison:
    """All runs of a comparison; the jobs already have their length."""

    settings: ComparisonSettings
    budget: ComparisonBudget
    num_seeds: int
    recipes: tuple[AnyRecipe, ...]
    tasks: tuple[ComparedTask, ...]
    plan: RowPlan
    """Numbers of held-out rows, used where `settings` has none."""
    sentences: tuple[str, ...] = ()
    """Sentences with one mask token each, for which each model predicts words."""

    @property
    def has_other_systems(self) -> bool:
        """Whether a recipe trains a system beside BERT, such as a GPT."""
        return any(isinstance(recipe, SystemRecipe) for recipe in self.recipes)

    @property
    def eval_rows(self) -> int:
        """The number of common rows of each evaluation during training.

        Common rows are held-out rows on which the models of all recipes are evaluated.
        """
        return self.settings.eval_rows or self.plan.evaluations.rows

    @property
    def final_rows(self) -> int:
        """The number of common rows on which the finished models are evaluated."""
        return self.settings.final_rows or self.plan.final_rows

    @property
    def max_length(self) -> int:
        """The maximum length of the common rows in tokens: the smallest among the recipes."""
        return min(recipe.max_length for recipe in self.recipes)

    def tasks_of(self, recipe: AnyRecipe) -> list[ComparedTask]:
        """Return the tasks that the recipe's model can be fine-tuned on."""
        return [each for each in self.tasks if recipe.supports_task(each.task.name)]

    def folder(self, recipe: AnyRecipe, seed: int) -> Path:
        return self.settings.out / folder_name(recipe.name) / f"seed-{seed}"

    def differing_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that differ between recipes, each with its values by recipe."""
        flat = {recipe.name: dict(flatten(recipe.compared_settings())) for recipe in self.recipes}
        keys = dict.fromkeys(key for settings in flat.values() for key in settings)
        differing = {}
        for key in keys:
            by_recipe = {name: settings.get(key) for name, settings in flat.items()}
            first, *others = by_recipe.values()
            if any(other != first for other in others):
                differing[key] = by_recipe
        return differing


def read_comparison(settings: ComparisonSettings) -> Comparison:
    """Read and check all files before anything runs.

    Raises:
        ConfigError: a file, a recipe or a task is invalid, there is no budget or more than one, or
            there are fewer than two recipes.
        InputError: a task's file does not exist.
    """
    # A file is given by its path, or by the name of a recipe that bertsmith has of these kinds.
    tables = {path: read_recipe(path, kinds=("compare", "pretrain")) for path in settings.files}
    path, file = _find_comparison_file(tables)
    recipes = list(_read_recipes(path, file, settings))
    for recipe_path, table in tables.items():
        if recipe_path != path:
            recipes.append(_build_recipe(recipe_path.stem, table, str(recipe_path), settings))
    _check_names([recipe.name for recipe in recipes], "recipes", settings.files)
    if len(recipes) < 2:
        raise ConfigError(
            f"{_list_files(settings.files)}: found {count_noun(len(recipes), 'recipe')}; "
            "a comparison needs two or more. Name further recipe files, or a comparison file with "
            "a table [recipes]."
        )
    budget = _read_budget(path, file, settings)
    tasks = [_build_task(name, table, path, settings) for name, table in file.tasks.items()]
    _check_names([task.name for task in tasks], "tasks", settings.files)
    recipes = [_with_budget(recipe, budget) for recipe in recipes]
    plan = plan_rows([recipe.training for recipe in recipes])
    if settings.eval_rows is None:
        recipes = [_with_evaluations(recipe, plan) for recipe in recipes]
    num_seeds = _read_seeds(path, file, settings)
    comparison = Comparison(
        settings, budget, num_seeds, tuple(recipes), tuple(tasks), plan, file.sentences
    )
    tokenizer = Corpus.open(settings.corpus).tokenizer()
    for sentence in file.sentences:
        try:
            check_fits(read_sentence(tokenizer, sentence), comparison.max_length)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}") from None
    return comparison


def _find_comparison_file(tables: Mapping[Path, dict[str, Any]]) -> tuple[Path, _ComparisonFile]:
    """Return the path and the contents of the comparison file, both empty if there is none.

    Args:
        tables: the contents of each file; a comparison file has the tables [recipes] or [tasks].
    """
    paths = [path for path, table in tables.items() if {"recipes", "tasks"} & set(table)]
    if len(paths) > 1:
        raise ConfigError(
            f"{paths[0]} and {paths[1]}: two comparison files, with tables [recipes] or [tasks]; "
            "allowed is one. Name one of them, and further recipes of `bertsmith pretrain`."
        )
    if not paths:
        return Path(), _ComparisonFile()
    return paths[0], from_mapping(_ComparisonFile, tables[paths[0]], str(paths[0]))


def _read_recipes(
    path: Path, file: _ComparisonFile, settings: ComparisonSettings
) -> Iterator[AnyRecipe]:
    """Yield the recipes of a comparison file, with the shared settings and those of their files."""
    for name, table in file.recipes.items():
        source = f"{path}: recipes.{name}"
        inline = dict(table)
        recipe_file = inline.pop("file", None)
        from_file = {}
        if recipe_file is not None:
            recipe_path = _as_path(recipe_file, f"{source}: file")
            from_file = read_recipe(recipe_path, folder=path.parent, kinds=("pretrain",))
        is_system = "system" in from_file or "system" in inline
        shared = {
            key: shared_table
            for key, shared_table in file.shared.items()
            if not is_system or key in SHARED_WITH_SYSTEMS
        }
        merged = _merge_tables(_merge_tables(shared, from_file), inline)
        yield _build_recipe(name, merged, source, settings)


def _build_recipe(
    name: str, table: Mapping[str, Any], source: str, settings: ComparisonSettings
) -> AnyRecipe:
    """Build a recipe from its settings, with the evaluations and compute settings of all recipes.

    Args:
        source: the file and table of the recipe, for messages.
    """
    # Keys such as `out` are for a call of `bertsmith pretrain`; here they are ignored.
    values = {key: value for key, value in table.items() if key not in OF_THE_COMMAND}
    # The keys that the recipe leaves to its user, such as the model to continue.
    needs = values.pop("needs", [])
    system = values.pop("system", None)
    corpus = _as_path(values.pop("corpus", settings.corpus), f"{source}: corpus")
    if corpus.resolve() != settings.corpus.resolve():
        raise ConfigError(
            f"{source}: corpus: found '{corpus}'; that of the comparison is '{settings.corpus}'. "
            "All recipes need the same corpus and vocabulary. Leave 'corpus' out of the recipe."
        )
    recipe: AnyRecipe
    if system is not None:
        recipe = SystemRecipe(name, read_system_job(str(system), values, source, settings.corpus))
    else:
        job = from_mapping(PretrainJob, values, source, default=PretrainJob(settings.corpus))
        if missing := find_needs(needs, job, source):
            raise ConfigError(
                f"{source}: '{missing[0]}' is missing, which this recipe needs. Add it to a table "
                "[recipes.NAME] of a comparison file, beside 'file'."
            )
        if job.model.preset == "auto":
            raise ConfigError(
                f"{source}: model.preset is 'auto', whose size may differ from run to run. Name a "
                "size."
            )
        recipe = BertRecipe(name, job)
    # How often a recipe's own settings evaluate is dropped: all recipes are evaluated equally.
    replaced = {"eval_every": None, "eval_rows": settings.eval_rows, **settings.given_compute}
    return recipe.with_training(**replaced)


def _with_budget(recipe: AnyRecipe, budget: ComparisonBudget) -> AnyRecipe:
    """Return the recipe with its length set.

    Raises:
        ConfigError: the recipe cannot be run.
    """
    seeded = recipe.with_seed(0)  # the batches whose tokens are counted depend on the seed
    try:
        return seeded.with_training(**seeded.training_length(budget))
    except BertsmithError as error:
        raise ConfigError(f"recipe '{recipe.name}': {error}") from None


def _with_evaluations(recipe: AnyRecipe, plan: RowPlan) -> AnyRecipe:
    """Return the recipe with the number of eval rows and evaluations of the plan."""
    steps = recipe.training.steps
    eval_every = None if steps is None else math.ceil(steps / plan.evaluations.times)
    return recipe.with_training(eval_rows=plan.evaluations.rows, eval_every=eval_every)


def _build_task(
    name: str, table: Mapping[str, Any], path: Path, settings: ComparisonSettings
) -> ComparedTask:
    """Build a task from its table in the comparison file `path`.

    Raises:
        ConfigError: the task is unknown, lacks its eval file, or has a key that is set for all.
        InputError: one of its files does not exist.
    """
    source = f"{path}: tasks.{name}"
    values = dict(table)
    task_name = values.pop("task", None)
    if task_name is None:
        raise ConfigError(f"{source}: 'task' is missing. Add it, such as task = \"classify\".")
    try:
        task = task_named(str(task_name))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    for key in SET_FOR_ALL_TASKS:
        if key in values:
            raise ConfigError(f"{source}: '{key}' is the same for all recipes. Leave it out.")
    for key in ("train", "eval"):
        if key in values:
            values[key] = str(find_data(settings.data / str(values[key]), f"{source}: {key}"))
    # The default "auto" might decide differently for each recipe or seed. Model and out are empty
    # here: `settings_of_run` sets them for each run.
    values = {"cls_attention": "keep", **values, "model": "", "out": "", **settings.given_compute}
    task_settings = from_mapping(task.settings, values, source)
    if task_settings.eval == NOT_GIVEN:
        raise ConfigError(f"{source}: 'eval' is missing. Name the file to score by.")
    return ComparedTask(name, task, task_settings)


def _as_path(value: object, source: str) -> Path:
    """Return a recipe's value as a path.

    Raises:
        ConfigError: the value is not a path.
    """
    if not isinstance(value, str | Path):
        raise ConfigError(f"{source}: found {value!r}; allowed is a path, in quotes. Name one.")
    return Path(value)


def find_data(path: Path, source: str) -> Path:
    """Return `path`; raise InputError if it is not a file."""
    if not path.is_file():
        raise InputError(
            f"{source}: no file {path}. Put it there, or name another folder by {option('data')}."
        )
    return path


def _read_budget(
    path: Path, file: _ComparisonFile, settings: ComparisonSettings
) -> ComparisonBudget:
    """Return the budget of the options, or else of the comparison file.

    Raises:
        ConfigError: there is none, or more than one in the same place.
    """
    of_options: dict[Unit, float | None] = {unit: getattr(settings, unit) for unit in BUDGET_UNITS}
    if any(amount is not None for amount in of_options.values()):
        return budget_of(of_options, source="")
    source = str(path) if path.name else ""
    return budget_of({unit: getattr(file, unit) for unit in BUDGET_UNITS}, source)


def _read_seeds(path: Path, file: _ComparisonFile, settings: ComparisonSettings) -> int:
    """Return the number of seeds of the command line, or else of the comparison file.

    Raises:
        ConfigError: there is none, or it is out of range.
    """
    is_of_file = settings.seeds is None
    seeds = file.seeds if is_of_file else settings.seeds
    if seeds is None:
        raise ConfigError(
            f"{_name_source(path)}: found no seeds. Give {option('seeds', 3)}; with a single seed, "
            "the noise is unknown."
        )
    if not 1 <= seeds <= LARGEST["seeds"]:
        allowed = f"1 to {LARGEST['seeds']:,}; use 3 or more to see the spread"
        raise SettingError("seeds", seeds, allowed, source=str(path) if is_of_file else "")
    return seeds


def _name_source(path: Path) -> str:
    return str(path) if path.name else "command line"


def _merge_tables(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the entries of `overrides`; tables in both are merged key by key.

    >>> _merge_tables({"model": {"preset": "tiny", "dropout": 0.1}}, {"model": {"preset": "mini"}})
    {'model': {'preset': 'mini', 'dropout': 0.1}}
    """
    merged = dict(base)
    for key, value in overrides.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merge_tables(merged[key], value)
        else:
            merged[key] = value
    return merged


def folder_name(name: str) -> str:
    """Replace characters that some file systems do not allow.

    >>> folder_name("80/10/10")
    '80-10-10'
    """
    return re.sub(r"[^\w.+]+", "-", name).strip("-.") or "-"


def _check_names(names: Sequence[str], noun: str, files: Sequence[Path]) -> None:
    """Raise ConfigError if two names would have the same folder.

    Args:
        noun: the names are those of "recipes" or "tasks", for the message.
    """
    name_of_folder: dict[str, str] = {}
    for name in names:
        folder = folder_name(name)
        if folder in name_of_folder:
            raise ConfigError(
                f"{_list_files(files)}: {noun} '{name_of_folder[folder]}' and '{name}' would share "
                f"the folder '{folder}'. Rename one of them."
            )
        name_of_folder[folder] = name


def _list_files(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files)) or "command line"
