"""`bertsmith plan` from the command line; a few real steps of a tiny model."""

import json
import re

import pytest
from tiny_models import save_tiny
from tiny_runs import SIZE

from bertsmith.commands.plan import _format_count

SHORT = ("--measure-seconds", 0.01)


def test_json_holds_what_the_lines_say(bertsmith, corpus_dir):
    words = ("plan", *SIZE, "--corpus", corpus_dir, "--minutes", 1)
    facts = json.loads(bertsmith(*words, *SHORT, "--json"))
    assert facts["run"]["steps"] > 0
    assert facts["run"]["seconds"] == pytest.approx(60, rel=0.05)
    assert facts["step"]["seconds"] > 0 and facts["step"]["flops"] > 0
    assert facts["memory"]["peak"] > facts["memory"]["state"] > 0


def test_the_lines_of_a_plan(bertsmith, corpus_dir, tmp_path):
    page = bertsmith("plan", *SIZE, "--corpus", corpus_dir, "--steps", 50, *SHORT)
    for part in ("model   tiny: 2 layers", "run     50 steps", "through the corpus", "FLOP",
                 "time    ", "tokens/s", "memory  ", "at the peak", "optimizer"):  # fmt: skip
        assert part in page
    folder = save_tiny(tmp_path / "m", "masked_lm")
    words = ("plan", "--max-length", 16, "--steps", 9, "--pairs", "none", *SHORT)
    page = bertsmith(*words, "--from", folder, "--corpus", corpus_dir)
    assert f"model   {folder}: 2 layers" in page


def test_small_and_rounded_counts_have_a_space_and_a_prefix():
    shown = [_format_count(count, "B") for count in (512, 999_400, 999_600, 999.6e6, 5e21)]
    assert shown == ["512 B", "999,400 B", "1 MB", "1 GB", "5 ZB"]
    assert _format_count(512) == "512"


def test_several_machines_are_planned_by_what_must_travel(bertsmith, corpus_dir):
    words = ("plan", *SIZE, "--corpus", corpus_dir, "--steps", 50, *SHORT)
    several = ("--nodes", 4, "--ranks", 2, "--bandwidth", "100Mbit")
    facts = json.loads(bertsmith(*words, *several, "--json"))
    ranks = facts["ranks"]
    assert ranks["num_ranks"] == 8
    assert ranks["bytes"] == pytest.approx(2 * 4 * facts["parameters"] * 7 / 8)
    assert ranks["collective_seconds"] == pytest.approx(ranks["bytes"] / 12.5e6)
    alone = facts["step"]["seconds"]
    assert ranks["step_seconds"] == pytest.approx(alone / 8 + ranks["collective_seconds"])
    assert ranks["efficiency"] == pytest.approx(alone / 8 / ranks["step_seconds"])
    page = bertsmith(*words, *several)
    assert "ranks   8: " in page and "This assumes" in page
    assert re.search(r"at 100Mbit; efficiency \d+ %$", page, re.MULTILINE)
    assert "travel in fp32" in page
    assert "ranks   " not in bertsmith(*words)


def test_a_recipe_of_pretrain_can_be_given(bertsmith, corpus_dir, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'out = "nowhere"\n[training]\nsteps = 20\nbatch_size = 4\nthreads = 1\n'
        '[model]\npreset = "tiny"\nmax_position_embeddings = 32\n[pretraining]\nmax_length = 16\n'
    )
    words = ("plan", "--recipe", recipe, "--corpus", corpus_dir)
    facts = json.loads(bertsmith(*words, *SHORT, "--json"))
    assert facts["step"]["tokens"] == pytest.approx(4 * 16, rel=0.3)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("more", "parts"), [
    ("--steps 9", ["--corpus"]),
    ("--steps 9 --corpus no/corpus", ["no/corpus", "corpus build"]),
    ("--corpus no/corpus", ["--steps ", "--minutes "]),
    ("--steps 9 --corpus c --nodes 0", ["--nodes: found 0", "1 or more"]),
    ("--steps 9 --corpus c --bandwidth fast", ["--bandwidth: found 'fast'", "1Gbit"]),
    ("--steps 9 --corpus c --measure-seconds 0", ["--measure-seconds: found 0", "above 0"]),
])  # fmt: skip
def test_what_cannot_be_is_one_line_and_code_2(refused, more, parts):
    told = refused("plan", *SIZE, *more.split())
    assert all(part in told for part in parts)
