"""A comparison → all its runs: pre-trained, measured, fine-tuned; never one twice.

    OUT/RECIPE/seed-0/           a run folder of `bertsmith pretrain`
    └── TASK/                    one of `bertsmith finetune`, without its weights once it is scored

What is complete is not repeated, what was stopped goes on from its checkpoint. A run that fails is
noted with its error and the others go on; the next call tries it again.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from bertsmith.comparison.settings import ComparedTask, Comparison, Recipe, flatten
from bertsmith.comparison.yardstick import Yardstick
from bertsmith.config import to_jsonable
from bertsmith.data.manifest import MANIFEST_NAME
from bertsmith.data.shards import Corpus
from bertsmith.errors import BertsmithError, ConfigError, Interrupted
from bertsmith.files import sha256_file
from bertsmith.finetune import check_parts, count_parts
from bertsmith.hardware import compute_settings, select_device
from bertsmith.model.huggingface import load_model
from bertsmith.model_settings import NEW_MODEL
from bertsmith.pretrain import pretrain
from bertsmith.pretrain_job import PretrainJob
from bertsmith.repeats import WEIGHTS, Run, finish
from bertsmith.tasks.settings import UNASKED
from bertsmith.training.journal import is_held_out, read_journal
from bertsmith.training.recorder import Watcher
from bertsmith.training.run_folder import RunFolder

NOTED = "comparison"
"""What `run.json` calls the figures of a run that is measured."""

FAILURES = (BertsmithError, MemoryError, torch.OutOfMemoryError)
"""What ends one run and leaves the others as they are."""

PASSING = {"resume", "overwrite", "threads", "training.threads", "training.keep",
           "training.checkpoint_every"}  # fmt: skip
"""Settings that change nothing that is computed; of threads, what changes it is compared."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Moment:
    """A held-out measurement on the way: what was spent, and the loss on the common rows."""

    tokens: int
    minutes: float
    loss: float


@dataclass
class RunResult:
    """What came of a recipe with one seed.

    `figures` by name: of the common rows, of the run's own second objective, and of the tasks.
    `cost` has parameters, steps, tokens and minutes. `errors` tell what failed.
    """

    recipe: str
    seed: int
    figures: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """What all runs of a comparison need."""

    comparison: Comparison
    watchers: Sequence[Watcher]
    command: str
    tell: Tell

    def yardstick(self, num_rows: int, *, paired: bool = False) -> Yardstick:
        """The common rows."""
        held_out = Corpus.open(self.comparison.settings.corpus, "held_out")
        return Yardstick(held_out, self.comparison.max_length, num_rows, paired)


def run_all(work: Work) -> list[RunResult]:
    """Every recipe with every seed. Seed by seed, so that a comparison that is stopped early has
    some of each.

    Raises:
        ConfigError: a folder holds a run with other settings.
        Interrupted: the user asked to stop; the same call goes on from there.
    """
    comparison = work.comparison
    for recipe, seed in each_run(comparison):
        check_earlier(comparison, recipe, seed)
    runs = list(each_run(comparison))
    results = [
        run_one(work, recipe, seed, f"{number} of {len(runs)}")
        for number, (recipe, seed) in enumerate(runs, start=1)
    ]
    order = [recipe.name for recipe in comparison.recipes]
    return sorted(results, key=lambda result: (order.index(result.recipe), result.seed))


def each_run(comparison: Comparison) -> Iterator[tuple[Recipe, int]]:
    """Recipes and seeds in the order in which they run."""
    for seed in range(comparison.num_seeds):
        for recipe in comparison.recipes:
            yield recipe, seed


def run_one(work: Work, recipe: Recipe, seed: int, of: str) -> RunResult:
    """Pre-train, measure, fine-tune to every task; or what was noted of it."""
    result = RunResult(recipe.name, seed)
    name = f"{recipe.name}, seed {seed} ({of})"
    with noting_failures(work, result, "pre-training"):
        pretrain_one(work, recipe, seed, name, result)
    if result.errors:
        return result
    for task in work.comparison.tasks:
        with noting_failures(work, result, task.name):
            result.figures[task.name] = finetune_one(work, recipe, seed, task, name)
    return result


@contextlib.contextmanager
def noting_failures(work: Work, result: RunResult, what: str) -> Iterator[None]:
    """A block whose failure is noted and does not end the work."""
    try:
        yield
    except Interrupted:
        raise
    except FAILURES as error:
        reason = str(error) or type(error).__name__
        result.errors.append(f"{result.recipe}, seed {result.seed}: {what} failed: {reason}")
        work.tell(result.errors[-1])


def pretrain_one(work: Work, recipe: Recipe, seed: int, name: str, result: RunResult) -> None:
    """Bring a run to its end, if it is not there, and measure it."""
    comparison = work.comparison
    folder, job = RunFolder(comparison.folder(recipe, seed)), recipe.with_seed(seed)
    noted = folder.read_run().get(NOTED) if folder.run_path.exists() else None
    if noted is not None:
        work.tell(f"{name}: pre-trained already")
    else:
        work.tell(f"{name}: pre-training")
        noted = measured(work, job, folder)
        folder.write_run({**folder.read_run(), NOTED: noted})
        shutil.rmtree(folder.checkpoints_dir, ignore_errors=True)
        work.tell(f"{name}: {shown(noted['figures'])}")
    result.figures.update(noted["figures"])
    result.cost.update(noted["cost"])
    result.moments.extend(moments_of(folder))


def measured(work: Work, job: PretrainJob, folder: RunFolder) -> dict[str, Any]:
    """Figures and cost of a run, which is trained first as far as it is not."""
    is_begun = folder.run_path.exists()
    if not is_begun or "summary" not in folder.read_run():
        pretrain(
            job,
            folder.path,
            resume=is_begun,
            watchers=work.watchers,
            resume_command=work.command,
            measure=work.yardstick(job.training.eval_rows),
        )
    summary = folder.read_run()["summary"]
    figures, num_parameters = measure_saved(work, job, folder)
    cost = {
        "parameters": num_parameters,
        "steps": summary["steps"],
        "tokens": summary["real_tokens"],
        "minutes": summary["elapsed_seconds"] / 60,
    }
    return {
        "rows": rows_of(work.comparison),
        "figures": {**figures, **own_figures(summary["held_out"])},
        "cost": cost,
    }


def rows_of(comparison: Comparison) -> dict[str, int]:
    """What the common rows depend on, beside the corpus."""
    return {"final_rows": comparison.settings.final_rows, "max_length": comparison.max_length}


def measure_saved(work: Work, job: PretrainJob, folder: RunFolder) -> tuple[dict[str, float], int]:
    """The saved model's figures on the common rows of both kinds, in fp32, and its parameters."""
    device = select_device(job.training.device)
    num_rows = work.comparison.settings.final_rows
    with compute_settings(device, job.training.threads), torch.inference_mode():
        model = load_model(folder.path).to(device).eval()
        single = work.yardstick(num_rows)(model)
        paired = work.yardstick(num_rows, paired=True)(model)
    figures = {f"one_segment_{name}": value for name, value in single.items()}
    figures |= {f"two_segments_{name}": value for name, value in paired.items()}
    return figures, sum(parameter.numel() for parameter in model.parameters())


def own_figures(held_out: Mapping[str, Any]) -> dict[str, float]:
    """How well a run does what it learnt beside masked words, on held-out rows of its own.

    Accuracies; of replaced tokens the area under the ROC curve, since most tokens are not replaced
    and to call none so is mostly right.
    """
    names = [name.removeprefix("held_out_") for name in held_out]
    found = [name for name in names if name.endswith("_accuracy")]
    own = [name for name in found if not name.startswith(("mlm_", "yardstick_", "rtd_"))]
    own += [name for name in names if name == "rtd_auc"]
    return {name: held_out[f"held_out_{name}"] for name in own}


def moments_of(folder: RunFolder) -> list[Moment]:
    """The measurements on the way, by the journal, after the first step."""
    tokens, found = 0, []
    for entry in read_journal(folder.journal_path):
        tokens += entry.get("real_tokens", 0)
        if is_held_out(entry) and tokens and "held_out_yardstick_loss" in entry:
            loss = entry["held_out_yardstick_loss"]
            found.append(Moment(tokens, entry["elapsed_seconds"] / 60, loss))
    return found


def finetune_one(work: Work, recipe: Recipe, seed: int, task: ComparedTask, name: str) -> float:
    """The task's score: as it was written if it is there, else after learning the rest of it."""
    settings = task.of_run(work.comparison.folder(recipe, seed), seed)
    folder = RunFolder(settings.out)
    is_done = folder.run_path.exists() and "result" in folder.read_run()
    work.tell(f"{name}: {task.name}{', scored already' if is_done else ''}")
    run = Run(f"{name}: {task.name}", settings)
    score = float(finish(task.task, run, work.watchers, work.command)["best_score"])
    (folder.path / WEIGHTS).unlink(missing_ok=True)
    return score


def check_earlier(comparison: Comparison, recipe: Recipe, seed: int) -> None:
    """Refuse to take earlier runs with other settings for those that are asked for.

    Raises:
        ConfigError: names the file and the first setting that differs.
    """
    folder, job = RunFolder(comparison.folder(recipe, seed)), recipe.with_seed(seed)
    check_settings(folder, to_jsonable(job.resolved))
    check_rows(folder, comparison)
    for task in comparison.tasks:
        settings = task.of_run(folder.path, seed)
        check_settings(RunFolder(settings.out), to_jsonable(settings))
        if RunFolder(settings.out).run_path.exists():
            check_parts(RunFolder(settings.out), settings.batch_size, count_parts(settings))


UNSAID = {"model.position_initializer": NEW_MODEL["position_initializer"], **UNASKED}
"""What earlier versions did without writing it down."""


def check_settings(folder: RunFolder, wanted: Mapping[str, Any]) -> None:
    """Refuse a run with other settings; those that an earlier version did not know pass, but for
    what it did where it did not ask."""
    if not folder.run_path.exists():
        return
    found = {**UNSAID, **dict(flatten(folder.read_run().get("settings", {})))}
    for name, value in flatten(wanted):
        if name in found and name not in PASSING and found[name] != value:
            raise ConfigError(
                f"{folder.run_path}: a run with {name} {found[name]}, where {value} is asked for. "
                "Choose another --out, or remove that run."
            )


def check_rows(folder: RunFolder, comparison: Comparison) -> None:
    """Refuse a run on another corpus in the same place, or measured on other rows."""
    run = folder.read_run() if folder.run_path.exists() else {}
    manifest = comparison.settings.corpus / MANIFEST_NAME
    if run and run["identity"]["corpus_sha256"] != sha256_file(manifest):
        raise ConfigError(
            f"{folder.run_path}: a run on another corpus than {comparison.settings.corpus} now "
            "holds. Choose another --out, or remove that run."
        )
    wanted = rows_of(comparison)
    if (rows := run.get(NOTED, {}).get("rows", wanted)) != wanted:
        raise ConfigError(
            f"{folder.run_path}: measured on {rows['final_rows']} rows of {rows['max_length']} "
            f"tokens, where {wanted['final_rows']} of {wanted['max_length']} are asked for (the "
            "shortest max_length of all recipes counts). Choose another --out."
        )


def shown(figures: Mapping[str, float]) -> str:
    """Figures in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in figures.items())


def as_json(result: RunResult) -> dict[str, Any]:
    """Everything of a run as plain values."""
    return asdict(result)
