"""`bertsmith plan` from the command line; a few real steps of a tiny model."""

import json

import pytest
from tiny_models import save_tiny
from tiny_runs import SIZE

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
    ("--steps 9 --corpus c --measure-seconds 0", ["--measure-seconds: found 0", "above 0"]),
])  # fmt: skip
def test_what_cannot_be_is_one_line_and_code_2(refused, more, parts):
    told = refused("plan", *SIZE, *more.split())
    assert all(part in told for part in parts)
