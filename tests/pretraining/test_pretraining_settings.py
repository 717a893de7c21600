"""What a command line of `pretrain` comes to before anything is measured."""

import pytest
from refusals import refuses

from bertsmith.commands.pretrain import build_job
from bertsmith.commands.settings.pretrain import parse
from bertsmith.errors import ConfigError
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.pretraining.settings import PretrainingSettings


def resolve(corpus_dir, line: str) -> PretrainConfig:
    words = ["--corpus", str(corpus_dir), "--out", "out", "--steps", "1000", *line.split()]
    job = build_job(parse(words, "bertsmith pretrain"))
    job.training.check_length()
    config = resolve_unmeasured(job)
    build_objective(config)
    return config


@pytest.mark.parametrize(("line", "heads", "shares"), [
    ("--family bert", ["masked_lm", "next_sentence"], [0.8, 0.1, 0.1]),
    ("--family bert --pairs sentence_order", ["masked_lm", "sentence_order"], [0.8, 0.1, 0.1]),
    ("--family bert --pairs none", ["masked_lm"], [0.8, 0.1, 0.1]),
    ("--family bert --rows across", ["masked_lm"], [0.8, 0.1, 0.1]),
    ("--family roberta", ["masked_lm"], [0.8, 0.1, 0.1]),
    ("--family albert", ["masked_lm", "sentence_order"], [0.8, 0.1, 0.1]),
    ("--family albert --rows across", ["masked_lm"], [0.8, 0.1, 0.1]),
    ("--family distilbert", ["masked_lm"], [0.8, 0.1, 0.1]),
    ("--family modernbert", ["masked_lm"], [0.8, 0.1, 0.1]),
    ("--family electra", ["replaced_token"], [0.85, 0.0, 0.15]),
    ("--family electra --objective masked_lm", ["masked_lm"], [0.8, 0.1, 0.1]),
])  # fmt: skip
def test_a_family_says_what_is_learned(corpus_dir, line, heads, shares):
    learned = resolve(corpus_dir, line).pretraining
    assert list(learned.heads) == heads
    assert [learned.mask_share, learned.random_share, learned.keep_share] == shares


@pytest.mark.parametrize(("family", "rates"), [
    ("bert", [3e-3, 1.5e-3, 7e-4, 4e-4, 2e-4, 1e-4]),
    ("albert", [3e-3, 1.5e-3, 7e-4, 4e-4, 2e-4, 1e-4]),
])  # fmt: skip
def test_larger_models_learn_by_smaller_steps(corpus_dir, family, rates):
    sizes = ("tiny", "mini", "small", "medium", "base", "large")
    configs = [resolve(corpus_dir, f"--family {family} --preset {size}") for size in sizes]
    assert [config.optim.learning_rate for config in configs] == rates
    assert resolve(corpus_dir, "--learning-rate 0.01").optim.learning_rate == 0.01


@pytest.mark.parametrize(("line", "parts"), [
    ("--minutes 2", ["steps", "minutes"]),
    ("--family bert --objective replaced_token", ["bert", "electra"]),
    ("--family electra --pairs next_sentence", ["pairs", "none"]),
    ("--family distilbert --pairs sentence_order", ["pairs", "distilbert"]),
    ("--objective masked_lm --generator-size 0.5", ["generator_size"]),
    ("--shared all", ["shared", "albert"]),
    ("--mask-share 0.9", ["mask_share"]),
    ("--rows across --pairs next_sentence", ["rows", "next_sentence"]),
    ("--pairs none --short-seq-prob 0.2", ["short_seq_prob"]),
    ("--max-length 7", ["max_length: found 7"]),
    ("--max-length 600", ["max_length: found 600", "max_position_embeddings"]),
    ("--start-steps 100 --start-length 200", ["start_length: found 200"]),
    ("--start-length 32", ["start_length: found 32", "start_share"]),
    ("--masking-schedule-steps 100", ["masking_schedule_steps"]),
    ("--masking-schedule-steps 100 --final-masking-rate 0.3 --duplicates 2", ["duplicates"]),
    ("--checkpoint-every 10 --keep 0", ["checkpoint_every: found 10", "keep"]),
    ("--adam-epsilon 1e-300", ["adam_epsilon: found 1e-300", "1e-30 or more"]),
])  # fmt: skip
def test_settings_that_exclude_each_other_are_refused(corpus_dir, line, parts):
    with refuses(ConfigError, *parts):
        resolve(corpus_dir, line)


@pytest.mark.parametrize("share, steps, expected", [(0.1, 3, 1), (0.1, 0, 1), (0.5, 6, 3)])
def test_a_masking_schedule_has_a_step_even_if_its_share_is_less(share, steps, expected):
    given = PretrainingSettings(masking_schedule_share=share, final_masking_rate=0.3)
    settings = given.with_steps_of(steps)
    assert settings.masking_schedule_steps == expected
    assert settings.masking_rule(1).rate == 0.15
    assert settings.masking_rule(expected + 1).rate == pytest.approx(0.3)
