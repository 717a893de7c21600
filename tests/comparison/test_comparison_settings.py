"""What is compared is read strictly, and checked before anything runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from bertsmith.comparison.recipes import read_comparison
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.errors import BertsmithError, ConfigError, SettingError, as_flags
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.resolve import resolve_unmeasured

ROOT = Path(__file__).resolve().parents[2]
COMPARISONS = sorted((ROOT / "bertsmith" / "recipes" / "compare").glob("*.toml"))


def test_recipes_are_what_they_share_and_what_they_change(settings):
    comparison = read_comparison(settings)
    names = ["next sentence", "no pairs", "100/0/0"]
    assert [recipe.name for recipe in comparison.recipes] == names
    jobs = [recipe.job for recipe in comparison.recipes]
    for job in jobs:
        assert (job.model.preset, job.optim.learning_rate) == ("tiny", 1e-3)
        assert (job.training.steps, job.training.minutes) == (4, None)
    assert (comparison.num_seeds, comparison.max_length) == (2, 16)
    assert comparison.recipes[0].with_seed(3).training.seed == 3
    differing = comparison.differing_settings()
    shares = ("mask_share", "random_share", "keep_share")
    assert set(differing) == {f"pretraining.{name}" for name in ("pairs", *shares)}
    assert differing["pretraining.mask_share"] == dict(zip(names, (0.8, 0.8, 1.0), strict=True))
    (task,) = comparison.tasks
    run = task.settings_of_run(Path("runs/x"), 7)
    assert (run.model, run.out, run.seed) == (Path("runs/x"), Path("runs/x/words"), 7)
    assert (run.steps, run.batch_size, run.device) == (2, 5, "cpu")
    assert run.train == settings.data / "train.csv"


@pytest.mark.parametrize("system", ["", 'system = "gpt"\nmodel = { max_length = 16 }\n'])
def test_recipes_that_differ_in_how_they_compute_are_said_to(settings, system):
    path = settings.data / "precisions.toml"
    path.write_text(
        f"steps = 4\nseeds = 1\n[recipes.fp32]\n{system}training = {{ precision = 'fp32' }}\n"
        f"[recipes.bf16]\n{system}training = {{ precision = 'bf16' }}\n"
    )
    of_file = replace(settings, files=(path,), precision="auto")
    assert read_comparison(of_file).differing_settings() == {
        "training.precision": {"fp32": "fp32", "bf16": "bf16"}
    }
    # What the line gives is the same for all recipes.
    assert read_comparison(replace(of_file, precision="fp32")).differing_settings() == {}


def test_a_recipe_may_be_a_file_beside_it(settings):
    path = settings.data / "mine.toml"
    path.write_text(
        f'corpus = "{settings.corpus}"\nout = "elsewhere"\npage = "a.html"\n'
        "[model]\npreset = 'mini'\n[training]\nminutes = 3\n"
    )
    both = read_comparison(replace(settings, files=(*settings.files, path)))
    mine = both.recipes[-1]
    assert (mine.name, mine.job.training.steps, mine.job.model.preset) == ("mine", 4, "mini")
    change(settings, '[recipes."no pairs"]', '[recipes."no pairs"]\nfile = "mine.toml"')
    job = read_comparison(settings).recipes[1].job
    assert (job.model.preset, job.pretraining.pairs, job.training.batch_size) == ("mini", "none", 4)


def test_tokens_and_operations_become_steps(settings):
    for recipe in read_comparison(replace(settings, tokens=1000)).recipes:
        objective = build_objective(resolve_unmeasured(recipe.job))
        tokens = [
            sum(batch.num_tokens for batch in objective.micro_batches(step))
            for step in range(1, recipe.job.training.steps + 1)
        ]
        assert abs(sum(tokens) - 1000) <= max(tokens)

    def steps(flops):
        recipes = read_comparison(replace(settings, flops=flops)).recipes
        return np.array([recipe.job.training.steps for recipe in recipes])

    assert steps(2e10) == pytest.approx(2 * steps(1e10), rel=0.1)


def change(settings, before, after):
    (path,) = settings.files
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize(("before", "after", "parts"), [
    ("pretraining.pairs", "pretraining.pears", ["recipes.no pairs: ", "'pears'", "'pairs'"]),
    ("seeds = 2", "", ["--seeds 3"]),
    ("steps = 4\n", "", ["--minutes, --tokens, --flops, --steps"]),
    ("steps = 4\n", "steps = 4\nminutes = 3\n", ["found minutes = 3 and steps = 4", "--minutes, "]),
    ("steps = 4\n", "tokens = 0\n", ["tokens: found 0", "above 0"]),
    ('"100/0/0"]', '"100/0/0"]\nfile = "continue"', ["recipes.100/0/0: 'from' is missing"]),
    ("steps = 4\n", "flops = 1e30\n", ["recipe 'next sentence': ", " steps", "1,000,000,000"]),
    ('preset = "tiny"', 'preset = "auto"', ["recipes.next sentence: model.preset is 'auto'"]),
    ("max_length = 16", "max_length = 40", ["recipe 'next sentence': ", "found 40", " 32. "]),
    ('[recipes."100/0/0"]', '[recipes."next-sentence"]', ["'next sentence' and 'next-sentence'"]),
    ('task = "classify"', 'task = "clasify"', ["tasks.words: task: found 'clasify'", "classify, "]),
    ('train = "train.csv"', 'train = "trein.csv"', ["tasks.words: train: ", "trein.csv", "--data"]),
    ("batch_size = 5", "seed = 5", ["tasks.words: 'seed'"]),
    ('"no pairs"]', '"no pairs"]\ncorpus = "other"', ["recipes.no pairs: corpus: found 'other'"]),
    ("steps = 4\n", "steps = 0.4\n", ["steps: found 0.4", "whole number"]),
    ("batch_size = 5", 'head = "linear"', ["tasks.words: 'head'"]),
    ("batch_size = 5", 'cell = "lstm"', ["tasks.words: 'cell'"]),
    ("seeds = 2", "seeds = 0", ["seeds: found 0"]),
    ("seeds = 2", "seeds = 1_000_000", ["seeds: found 1000000"]),
])  # fmt: skip
def test_what_cannot_be_compared(settings, before, after, parts):
    change(settings, before, after)
    place = [] if parts[0].startswith("recipe '") else ["lab.toml: "]
    with refuses(BertsmithError, *place, *parts) as caught:
        read_comparison(settings)
    assert "--seeds: " not in as_flags(caught.value.message)
    assert not settings.out.exists()


def test_the_line_and_the_files(settings):
    comparison = read_comparison(replace(settings, minutes=2.5, seeds=5))
    assert (str(comparison.budget), comparison.num_seeds) == ("2.5 minutes", 5)
    with refuses(ConfigError, "found --minutes 1 and --tokens 10"):
        read_comparison(replace(settings, minutes=1, tokens=10))
    with refuses(SettingError, "--seeds: found 0; "):
        read_comparison(replace(settings, seeds=0))
    for unit in ("minutes", "tokens", "flops", "steps"):
        for amount in (0, -1.5):
            with refuses(SettingError, f"--{unit}: found {amount}; ", "above 0"):
                read_comparison(replace(settings, **{unit: amount}))
    path = settings.data / "mine.toml"
    path.write_text('[model]\npreset = "tiny"\n')
    with refuses(ConfigError, f"{path}: found 1 recipe", "[recipes]"):
        read_comparison(replace(settings, files=(path,), steps=3, seeds=1))
    with refuses(ConfigError, "continue: 'from' is missing", "[recipes.NAME]"):
        read_comparison(replace(settings, files=(path, Path("continue")), steps=3, seeds=1))
    with refuses(ConfigError, "found no budget", "--minutes, --tokens, --flops, --steps"):
        read_comparison(replace(settings, files=(path, Path("hour")), seeds=1))


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_every_comparison_file_is_right(path, tmp_path, corpus_dir, monkeypatch):
    """Its data may be absent here, and its corpus is another."""
    monkeypatch.setattr("bertsmith.comparison.recipes.find_data", lambda path, place: path)
    comparison = read_comparison(ComparisonSettings((path,), corpus_dir, tmp_path / "out"))
    minutes = comparison.budget.amount
    if comparison.budget.unit != "minutes":
        assert comparison.budget.unit == "tokens"
        minutes /= 60 * 40_000  # tokens a second on two cores
    assert comparison.num_seeds >= 2 and comparison.tasks
    runs = comparison.num_seeds * len(comparison.recipes)
    assert runs * minutes <= 40, "with the tasks it should take less than an hour"
