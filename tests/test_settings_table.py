"""What command lines come to: each line of a table resolves to the settings that it holds.

`WRITE_TABLE=1 python -m pytest tests/test_settings_table.py` writes the table anew, which is right
only where a default or a rule was meant to change; the difference then says what it came to.
"""

import itertools
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_tiny_of

from bertsmith.commands import finetune as finetune_command
from bertsmith.commands import pretrain as pretrain_command
from bertsmith.config import to_jsonable
from bertsmith.errors import BertsmithError
from bertsmith.finetuning.resolve import resolve_optim, resolve_steps
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.resolve import resolve_unmeasured

TABLE = Path(__file__).with_name("settings_table.json")
FAMILIES = ("bert", "roberta", "albert", "distilbert", "electra")
SIZES = ("", "--preset tiny", "--preset base")
PRETRAIN = [
    "",
    "--minutes 2.5",
    "--steps 7 --minutes 2",
    "--steps 0",
    "--seed 5 --batch-size 32 --eval-every 3 --eval-rows 10 --checkpoint-every 4 --keep 0",
    *(f"--family {f} {size}".strip() for f, size in itertools.product(FAMILIES, SIZES)),
    *(
        f"--family {family} {said}"
        for family, said in itertools.product(
            FAMILIES,
            (
                "--pairs next_sentence",
                "--pairs sentence_order",
                "--pairs none",
                "--rows across",
                "--objective masked_lm",
                "--objective replaced_token",
                "--mask-share 0.8 --random-share 0.1 --keep-share 0.1",
                "--mask-share 0.9",
                "--mask-share 1 --random-share 0 --keep-share 0",
            ),
        )
    ),
    *(f"--family albert --shared {what}" for what in ("all", "attention", "feed_forward", "none")),
    "--shared all",
    "--family electra --generator-size 0.5 --discriminator-weight 20",
    "--generator-size 0.5 --objective masked_lm",
    "--family electra --pairs next_sentence --objective masked_lm",
    "--rows across --pairs next_sentence",
    "--rows across --pairs none",
    "--pairs none --short-seq-prob 0.2",
    "--short-seq-prob 0",
    "--max-length 512",
    "--max-length 600",
    "--max-length 600 --max-position-embeddings 600",
    "--max-length 7",
    "--start-steps 100",
    "--start-steps 100 --start-length 32",
    "--start-steps 100 --start-length 200",
    "--masking word",
    "--masking span",
    "--masking ngram --duplicates 10",
    "--masking-rate 0.4",
    "--masking-rate 1",
    "--masking-schedule-steps 100",
    "--masking-schedule-steps 100 --final-masking-rate 0.3",
    "--masking-rate 0.3 --masking-schedule-steps 50 --final-mask-share 1 --final-random-share 0 "
    "--final-keep-share 0",
    "--masking-schedule-steps 100 --final-masking-rate 0.3 --duplicates 2",
    "--hidden-dropout-prob 0 --attention-probs-dropout-prob 0.2",
    "--initializer-range 0.05 --position-initializer sinusoidal --pooling mean",
    "--learning-rate 1e-3 --weight-decay 0.1 --warmup-fraction 0.2",
    "--schedule cosine --max-grad-norm 0",
    "--schedule wsd --decay-fraction 0.1",
    "--adam-beta1 0.8 --adam-beta2 0.98 --adam-epsilon 1e-8",
    "--learning-rate 0",
    *(f"--preset {size}" for size in ("mini", "small", "medium", "large")),
    *(f"--from @{family} --max-length 32" for family in FAMILIES),
    *(
        f"--from @{family} --max-length 32 {said}"
        for family, said in itertools.product(
            ("bert", "albert", "electra"),
            (
                "--pairs none",
                "--pairs sentence_order",
                "--objective masked_lm",
                "--objective replaced_token",
                "--max-position-embeddings 64",
                "--max-length 40",
                "--hidden-dropout-prob 0",
                "--preset tiny",
                "--generator-size 0.5",
                "--learning-rate 1e-3",
                "--initializer-range 0.05",
            ),
        )
    ),
]
TASKS = ("classify", "regress", "tag", "answer", "choose", "embed")
FINETUNE = [
    *(f"{task} --eval e" for task in TASKS),
    *(
        f"{task} --eval e {said}"
        for task, said in itertools.product(
            TASKS,
            (
                "--epochs 2.5 --learning-rate 1e-3",
                "--max-length 64 --patience 3 --batch-size 8 --seed 3",
                "--stride 16 --long-texts cut",
                "--seeds 3",
            ),
        )
    ),
    *(
        f"classify --eval e {said}"
        for said in (
            "--steps 10",
            "--steps 10 --epochs 1",
            "--learning-rate 0",
            "--weight-decay 0 --warmup-fraction 0 --dropout 0",
            "--layer-decay 0.9 --freeze-embeddings",
            "--freeze-layers 2",
            "--freeze-layers 13",
            "--layer-decay 0",
            "--cls-attention reset",
            "--cls-attention reset --from-scratch",
            "--metric macro_f1",
            "--class-weights balanced",
            "--class-weights balanced --label-smoothing 0.1",
            "--focal-gamma 2",
            "--label-smoothing 0.1",
            "--sample 100",
            "--multi-label",
            "--multi-label --threshold 0.3 --label-separator ;",
            "--label-separator ;",
            "--limit 5 --eval-limit 7",
            "--limit 0",
            "--header no --text-column 2 --label-column 1",
            "--skip-incomplete",
            "--seeds 1",
            "--seeds 2 --folds 2",
            "--dropout 1",
            "--seed -1",
        )
    ),
    *(f"{task} --folds 5" for task in TASKS),
    "classify --eval e --teacher t --unlabelled u --soft-weight 0.9 --cache c",
    "classify --eval e --soft-weight 0.9",
    "classify",
]
STEPS_PER_EPOCH = (1, 100, 5000)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, corpus_dir: Path) -> dict[str, Path]:
    """A corpus, and a folder of a tiny model of each family."""
    folder = tmp_path_factory.mktemp("models")
    return {"corpus": corpus_dir, **{name: save_tiny_of(folder / name, name) for name in FAMILIES}}


def resolve_pretrain(line: str, places: dict[str, Path]) -> dict[str, Any]:
    """Return all that decides a pre-training run, as flat JSON."""
    words = [str(places[w[1:]]) if w.startswith("@") else w for w in line.split()]
    length = [] if {"--steps", "--minutes"} & set(words) else ["--steps", "1000"]
    required = ["--corpus", str(places["corpus"]), "--out", "out"]
    settings = pretrain_command.parse([*required, *words, *length], "bertsmith pretrain")
    job = pretrain_command.build_job(settings)
    budget = job.training.budget()
    config = resolve_unmeasured(job)
    build_objective(config)  # refuses what the corpus lacks
    learnt = config.pretraining
    settings = asdict(learnt)
    if not learnt.start_steps:
        del settings["start_length"]  # it decides nothing
    rules = {f"masking at {step}": asdict(learnt.masking_rule(step)) for step in (1, 80)}
    return {
        "family": config.family,
        **asdict(config.model),
        "position_initializer": config.position_initializer or None,
        **asdict(config.optim),
        "heads": learnt.heads,
        **rules,
        **settings,
        "steps": budget.steps,
        "seconds": budget.seconds,
        **asdict(job.training),
    }


def resolve_finetune(line: str) -> dict[str, Any]:
    """Return all that decides a fine-tuning, as flat JSON."""
    task, *words = line.split()
    required = ["--model", "m", "--train", "t", "--out", "out"]
    request = finetune_command.parse([*required, *words], f"bertsmith finetune {task}")
    settings = request.settings
    settings.check_held_out()
    tiny, base = BertConfig(100, 128, 2, 2, 512), BertConfig(100, 768, 12, 12, 3072)
    return {
        **asdict(settings),
        "figure": settings.figure,
        "is_series": settings.is_series,
        **{f"steps of {n} an epoch": resolve_steps(settings, n) for n in STEPS_PER_EPOCH},
        **{f"tiny {name}": value for name, value in asdict(resolve_optim(settings, tiny)).items()},
        **{f"base {name}": value for name, value in asdict(resolve_optim(settings, base)).items()},
    }


def resolve(line: str, places: dict[str, Path]) -> dict[str, Any]:
    """Return what a line comes to as JSON, or that it is refused."""
    command, _, said = line.partition(" ")
    try:
        found = resolve_pretrain(said, places) if command == "pretrain" else resolve_finetune(said)
    except (BertsmithError, SystemExit):
        return {"refused": True}
    return json.loads(json.dumps(to_jsonable(found)))


LINES = [*(f"pretrain {said}".strip() for said in PRETRAIN), *(f"finetune {s}" for s in FINETUNE)]
UNSET = "not a setting of this line"


def base_of(line: str) -> str:
    """Return the line of the table to whose settings those of `line` are told as differences."""
    command, *words = line.split()
    return command if command == "pretrain" else f"finetune {words[0]} --eval e"


@pytest.mark.parametrize("line", LINES)
def test_a_line_comes_to_the_settings_of_the_table(line: str, places: dict[str, Path]) -> None:
    table = json.loads(TABLE.read_text())
    expected = table[line]
    if line != base_of(line) and "refused" not in expected:
        expected = {**table[base_of(line)], **expected}
    expected = {name: value for name, value in expected.items() if value != UNSET}
    assert resolve(line, places) == expected


@pytest.mark.skipif("WRITE_TABLE" not in os.environ, reason="the table is not to be written")
def test_write_the_table(places: dict[str, Path]) -> None:
    found = {line: resolve(line, places) for line in LINES}
    for line in LINES:
        base = found[base_of(line)]
        if line != base_of(line) and "refused" not in found[line]:
            mine = {name: found[line].get(name, UNSET) for name in {**base, **found[line]}}
            found[line] = {n: v for n, v in mine.items() if n not in base or base[n] != v}
    lines = [f"{json.dumps(line)}: {json.dumps(what)}" for line, what in found.items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
