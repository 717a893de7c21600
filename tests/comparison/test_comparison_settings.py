"""What is compared is read strictly, and checked before anything runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertsmith.comparison.settings import (
    ComparisonSettings,
    find_data,
    folder_name,
    read_comparison,
)
from bertsmith.errors import BertsmithError, ConfigError
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.resolve import resolve_unmeasured

ROOT = Path(__file__).resolve().parents[2]
COMPARISONS = sorted((ROOT / "bertsmith" / "recipes" / "compare").glob("*.toml"))


@pytest.fixture
def settings(lab, corpus_dir):
    return ComparisonSettings((lab / "lab.toml",), corpus_dir, lab / "out", data=lab)


def test_recipes_are_what_they_share_and_what_they_change(settings):
    comparison = read_comparison(replace(settings, device="cpu"))
    names = ["next sentence", "no pairs", "100/0/0"]
    assert [recipe.name for recipe in comparison.recipes] == names
    jobs = [recipe.job for recipe in comparison.recipes]
    for job in jobs:
        assert (job.model.preset, job.optim.learning_rate) == ("tiny", 1e-3)
        assert (job.training.steps, job.training.minutes) == (4, None)
    assert [job.pretraining.pairs for job in jobs] == [None, "none", None]
    assert (comparison.num_seeds, comparison.max_length) == (2, 16)
    assert comparison.recipes[0].with_seed(3).training.seed == 3
    differing = comparison.differing()
    shares = ("mask_share", "random_share", "keep_share")
    assert set(differing) == {f"pretraining.{name}" for name in ("pairs", *shares)}
    mask_shares = dict(zip(names, (0.8, 0.8, 1.0), strict=True))
    assert differing["pretraining.mask_share"] == mask_shares
    (task,) = comparison.tasks
    run = task.of_run(Path("runs/x"), 7)
    assert (run.model, run.out, run.seed) == (Path("runs/x"), Path("runs/x/words"), 7)
    assert (run.steps, run.batch_size, run.device) == (2, 5, "cpu")
    assert run.train == settings.data / "train.csv"


def test_further_recipes_are_files_beside_it(lab, settings):
    (lab / "mine.toml").write_text(
        f'corpus = "{settings.corpus}"\nout = "elsewhere"\npage = "a.html"\n'
        "[model]\npreset = 'mini'\nmax_position_embeddings = 32\n"
        "[pretraining]\nmax_length = 8\n[training]\nminutes = 3\n"
    )
    comparison = read_comparison(replace(settings, files=(lab / "lab.toml", lab / "mine.toml")))
    mine = comparison.recipes[-1]
    assert (mine.name, mine.job.training.steps, comparison.max_length) == ("mine", 4, 8)
    assert comparison.differing()["model.preset"]["mine"] == "mini"
    assert comparison.differing()["optim.learning_rate"]["mine"] == 1.5e-3
    change(lab, '[recipes."no pairs"]', '[recipes."no pairs"]\nfile = "mine.toml"')
    job = read_comparison(settings).recipes[1].job
    assert (job.model.preset, job.pretraining.max_length) == ("mini", 8)
    assert (job.pretraining.pairs, job.training.batch_size) == ("none", 4)


def test_tokens_and_operations_become_steps(settings):
    for recipe in read_comparison(replace(settings, tokens=1000)).recipes:
        objective = build_objective(resolve_unmeasured(recipe.with_seed(0)))
        tokens = [
            sum(batch.num_tokens for batch in objective.micro_batches(step))
            for step in range(1, recipe.job.training.steps + 1)
        ]
        assert abs(sum(tokens) - 1000) <= max(tokens)

    def steps(flops):
        recipes = read_comparison(replace(settings, flops=flops)).recipes
        return np.array([recipe.job.training.steps for recipe in recipes])

    assert steps(2e10) == pytest.approx(2 * steps(1e10), rel=0.1)


def change(lab, before, after):
    text = (lab / "lab.toml").read_text()
    assert before in text
    (lab / "lab.toml").write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("pretraining.pairs", "pretraining.pears",
         r"lab\.toml: recipes\.no pairs: pretraining: unknown key 'pears'\. Did you mean 'pairs'"),
        ("[tasks.words]", "[tusks]\n[tasks.words]", "unknown key 'tusks'. Did you mean 'tasks'"),
        ("seeds = 2", "", "found no seeds. Give --seeds 3"),
        ("seeds = 2", "seeds = 0", "seeds: found 0"),
        ("steps = 4\n", "", r"found no budget; .*--minutes, --tokens, --flops, --steps"),
        ("steps = 4\n", "steps = 4\nminutes = 3\n", "found minutes = 3 and steps = 4"),
        ("steps = 4\n", "tokens = nan\n", "found tokens = nan; allowed"),
        ("steps = 4\n", "flops = 1e30\n", r"recipe 'next sentence': .* steps; allowed are up to"),
        ('preset = "tiny"', 'preset = "auto"', "model.preset is 'auto'"),
        ("max_length = 16", "max_length = 40", r"recipe 'next sentence': .*found 40; allowed is"),
        ('[recipes."100/0/0"]', '[recipes."next-sentence"]', "share the folder 'next-sentence'"),
        ('task = "classify"', 'task = "clasify"', "tasks.words: task: found 'clasify'; allowed"),
        ('train = "train.csv"', "", "tasks.words: 'train' is missing"),
        ('train = "train.csv"', 'train = "trein.csv"', r"no file .*trein\.csv.*--data"),
        ("batch_size = 5", "seed = 5", "tasks.words: 'seed' is the same for all"),
        ("batch_size = 5", "batch_syze = 5", "unknown key 'batch_syze'. Did you mean 'batch_size'"),
        ('"no pairs"]', '"no pairs"]\ncorpus = "other"', r"recipes\.no pairs: corpus is other"),
        ('"no pairs"]', '"no pairs"]\nfile = 5', r"recipes\.no pairs: file: found 5; allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(lab, settings, before, after, message):
    change(lab, before, after)
    with pytest.raises(BertsmithError, match=message):
        read_comparison(settings)
    assert not settings.out.exists()


def test_the_line_and_the_files(lab, settings):
    comparison = read_comparison(replace(settings, minutes=2.5, seeds=5))
    assert (str(comparison.budget), comparison.num_seeds) == ("2.5 minutes", 5)
    (lab / "mine.toml").write_text('[model]\npreset = "tiny"\n')
    (lab / "again.toml").write_text((lab / "lab.toml").read_text())
    alone, twice = (lab / "mine.toml",), (lab / "lab.toml", lab / "again.toml")
    for changes, words in (
        ({"minutes": 1, "tokens": 10}, "command line: found minutes = 1 and tokens = 10"),
        ({"files": alone, "steps": 3, "seeds": 1}, "found 1 recipe"),
        ({"files": twice}, "two comparison files"),
        ({"eval_rows": 0}, "--eval-rows: found 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            read_comparison(replace(settings, **changes))
    for name, folder in (("80/10/10", "80-10-10"), ("../..", "-"), ("词 1", "词-1")):
        assert folder_name(name) == folder


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_every_comparison_file_is_right(path, tmp_path, corpus_dir, monkeypatch):
    """Its data may be absent here, and its corpus is another."""
    monkeypatch.setattr("bertsmith.comparison.settings.find_data", lambda path, place: path)
    comparison = read_comparison(ComparisonSettings((path,), corpus_dir, tmp_path / "out"))
    minutes = comparison.budget.amount
    if comparison.budget.unit != "minutes":
        assert comparison.budget.unit == "tokens"
        minutes /= 60 * 40_000  # tokens a second on two cores
    assert comparison.num_seeds >= 2 and comparison.tasks
    runs = comparison.num_seeds * len(comparison.recipes)
    assert runs * minutes <= 40, "with the tasks it should take less than an hour"
    assert find_data(path, "here") == path
