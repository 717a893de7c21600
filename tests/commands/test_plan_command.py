"""`bertsmith plan` from the command line; a few real steps of a tiny model."""

import json

import pytest
from tiny_models import save_tiny, tiny_config
from tiny_runs import SIZE

NOT_MEASURED = ("--measure-seconds", 0)


def test_json_holds_what_the_tables_say(bertsmith, corpus_dir):
    words = ("plan", *SIZE, "--corpus", corpus_dir, "--minutes", 1)
    facts = json.loads(bertsmith(*words, "--measure-seconds", 0.01, "--flops", 1e12, "--json"))
    assert facts["run"]["steps"] > 0
    assert facts["run"]["seconds"] == pytest.approx(60)
    assert facts["step"]["seconds"] > 0
    assert facts["elsewhere"][0]["step_seconds"] == pytest.approx(
        sum(facts["step"]["flops"].values()) / (0.4 * 1e12)
    )
    memory = facts["memory"]
    parts = ("weights", "optimizer", "gradients", "activations", "rest")
    assert sum(memory[part] for part in parts) == pytest.approx(memory["peak"])


def test_a_page_of_tables(bertsmith, corpus_dir, tmp_path):
    words = ("plan", *SIZE, "--corpus", corpus_dir, "--steps", 50, *NOT_MEASURED)
    page = bertsmith(*words, "--hardware", "H100", "A100", "--efficiency", 0.5)
    for part in ("model   tiny: 2 layers", "run     50 steps", "through the corpus", "attention",
                 "H100, 50 % of 989 TFLOP/s", "A100", "optimizer", "not asked for"):  # fmt: skip
        assert part in page
    folder, size = save_tiny(tmp_path / "m", "masked_lm"), tiny_config().vocab_size
    words = ("plan", "--max-length", 16, "--steps", 9, "--vocab-size", size, *NOT_MEASURED)
    assert f"model   {folder}: 2 layers" in bertsmith(*words, "--from", folder, "--pairs", "none")


def test_a_recipe_without_a_corpus_is_planned_with_random_text(bertsmith, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'out = "nowhere"\n[training]\nsteps = 20\nbatch_size = 4\nthreads = 1\n'
        '[model]\npreset = "tiny"\nmax_position_embeddings = 32\n[pretraining]\nmax_length = 16\n'
    )
    facts = json.loads(
        bertsmith("plan", "--recipe", recipe, "--vocab-size", 101, *NOT_MEASURED, "--json")
    )
    assert facts["vocab_size"] == 101
    assert facts["run"]["epochs"] is None
    assert facts["step"]["tokens"] == pytest.approx(4 * 16, rel=0.3)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("more", "parts"), [
    ("--steps 9 --corpus no/corpus", ["no/corpus", "'bertsmith corpus build'", "--corpus None"]),
    ("", ["--steps ", "--minutes "]),
    ("--steps 9 --measure-seconds -1", ["--measure-seconds: found -1", "0 or more"]),
    ("--steps 9 --efficiency 2 --flops 1e9", ["--efficiency: found 2", "above 0, at most 1"]),
    ("--steps 9 --vocab-size 3", ["--vocab-size: found 3", "6 or more", " 5 "]),
])  # fmt: skip
def test_what_cannot_be_is_one_line_and_code_2(refused, more, parts):
    told = refused("plan", *SIZE, *more.split())
    assert all(part in told for part in parts)
