"""A mistake in a command line is told in one line, with what is allowed."""

import shlex

import pytest

from bertsmith.commands.error_flags import as_flags_of
from bertsmith.errors import option


@pytest.mark.parametrize(("line", "parts"), [
    ("pretrain --corpis x", ["no option --corpis", "--corpus", "'bertsmith pretrain --help-all'"]),
    ("pretrain --out x --minutes=2", ["--corpus PATH", "'bertsmith pretrain --help'"]),
    ("pretrain --out x --minutes two", ["--minutes: found 'two'"]),
    ("pretrain --steps --out x", ["--steps: "]),
    ("glue --model m --data d --out ''", ["--out is empty"]),
    ("pretrain --preset tinny", ["--preset: found 'tinny'", "tiny, mini, small, medium, base, l"]),
    ("hardware fast", ["'fast' ", "'bertsmith hardware'", "'bertsmith hardware --help'"]),
    ("hardware -- -v", ["'-v' is one word too many", "'bertsmith hardware'"]),
    ("hardware --json=true", ["--json takes no value, and 'true' is given. Write --json alone."]),
    ("demo -- --seed=1", ["'--seed=1' is one word too many"]),
    ("hardware -- --help", ["'--help' is one word too many"]),
    ("tokenizer extend a.txt --from m --out x", ["'a.txt' is one word too", "needs --texts TEXT"]),
    ("pretrain --out -- x", ["--out: found no value"]),
    ("pretrain --corpus x --out y --minutes 1 -- --out= --recipe", ["'--out=' is one word too"]),
    ("tokenizer train a.txt --out x --held-out b.txt --held-out=c.txt", [
        "--held-out is given more than once", "all values behind one --held-out"]),
    ("tokenizer train a.txt --out x --held_out b.txt --held-out c.txt", ["--held-out is given"]),
    ("look m text --out x.html --without=1.2 --words --without 2.1", ["--without is given"]),
    ("fill model", ["TEXT", "'bertsmith fill --help' explains it."]),
    ("finetune clasify", ["'finetune clasify'", "'finetune classify'", "classify, answer, tag"]),
    ("finetune", ["'finetune'", "classify, answer, tag"]),
    ("finetune tag --model '' --train a --eval a --out x", ["--model is empty"]),
    ("pretrain --out x --corpus=", ["--corpus is empty"]),
])  # fmt: skip
def test_a_mistake_is_told_in_one_line(refused, line, parts):
    told = refused(*shlex.split(line))
    assert all(part in told for part in parts)


def test_an_option_that_another_replaces_is_not_asked_for(refused):
    missing = refused("finetune", "tag")
    assert "--eval PATH" in missing and "--model PATH" in missing
    missing = refused("finetune", "tag", "--folds", 5, "--teacher", "large")
    assert "--eval PATH" not in missing and "--model PATH" not in missing


def test_values_that_look_like_options_are_values(refused):
    told = refused("pretrain", "--corpus", "x", "--out", "y", "--steps", "-3")
    assert told.startswith("bertsmith: --steps: found -3")


@pytest.mark.parametrize(("command", "named", "spelled"), [
    ("pretrain", option("training.batch_size", 8), "--batch-size 8"),
    ("finetune classify", option("eval"), "--eval"),
    ("fill", option("text"), "text"),
    ("evaluate", option("optim.weight_decay"), "optim.weight_decay"),
    (None, option("training.batch_size"), "--batch-size"),
])  # fmt: skip
def test_options_are_spelled_as_the_command_has_them(command, named, spelled):
    assert as_flags_of(command, f"Give {named}.") == f"Give {spelled}."


def test_help_may_come_first(bertsmith):
    assert bertsmith("help", "corpus", "inspect") == bertsmith("corpus", "inspect", "--help")
    assert bertsmith("help") == bertsmith("--help")
