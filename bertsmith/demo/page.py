"""The page `report.html` about a demo, in words for a reader new to BERT."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.demo.figures import PRETRAINED, UNTRAINED
from bertsmith.demo.folder import Places
from bertsmith.pages.charts import Scale
from bertsmith.pages.page import unbroken_percent, write_page
from bertsmith.system.paths import shell_path
from bertsmith.training.curves import build_charts
from bertsmith.training.findings import LEARNING_STEPS
from bertsmith.training.journal import read_journal
from bertsmith.training.run_folder import RunFolder

METHODS = {
    PRETRAINED: (
        "pre-trained BERT",
        "read the documentation first, then learned from the labelled paragraphs",
    ),
    UNTRAINED: (
        "the same BERT without pre-training",
        "random weights, then the same fine-tuning on the same paragraphs",
    ),
    "tfidf": (
        "TF-IDF with logistic regression",
        "counts words and pairs of words, weighs rare ones more; no neural network",
    ),
    "majority": ("always the most frequent answer", "does not look at the text"),
}

MORE_MINUTES = (
    "on film reviews, a model of this size guessed 29 % of the hidden tokens after 4 minutes of "
    "pre-training, 35 % after 15 and 40 % after 60"
)
"""Rows minutes-4, quarter-hour and minutes-60 of benchmarks/results/quality.md."""
FEW_STEPS = (
    f"In fewer than {LEARNING_STEPS} steps the model learns only how frequent tokens are, so the "
    "figures do not show what pre-training is worth. Repeat the demo when the computer is less "
    "busy, or give it more time."
)
WIDE_MARGIN = 0.005
"""A difference below this share of the answers is called equal."""
NEARLY_ALL = 0.9
"""Share of the steps from which none is called left out: a plan in seconds is not met exactly."""


def write_demo_page(places: Places, results: Mapping[str, Any]) -> None:
    """Write the report of a demo whose models and journal are in place."""
    rows = [
        {**row, "title": METHODS[row["name"]][0], "description": METHODS[row["name"]][1]}
        for row in results["comparison"]
    ]
    by_name = {row["name"]: row for row in rows}
    pretrained = RunFolder(places.pretrained)
    write_page(
        places.out / "report.html",
        "demo/page.html",
        **{**results, "comparison": rows},
        pretrained=by_name[PRETRAINED],
        untrained=by_name[UNTRAINED],
        duration=duration(results["seconds"]["total"]),
        verdict=" ".join(verdict(results["comparison"])),
        shortened=shortened(results),
        more_minutes=MORE_MINUTES,
        charts=build_charts(read_journal(pretrained.journal_path), pretrained.read_run()),
        scale=Scale(0, 1),
        next_steps=next_steps(places),
    )


def verdict(comparison: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the comparison in sentences, whichever method is ahead."""
    accuracy = {row["name"]: row["accuracy"]["mean"] for row in comparison}
    return [
        f"Pre-training {_gain(accuracy[PRETRAINED] - accuracy[UNTRAINED])}: the model gets "
        f"{unbroken_percent(accuracy[PRETRAINED])} of the answers right with it, "
        f"{unbroken_percent(accuracy[UNTRAINED])} without.",
        *(
            [_against_words(accuracy[PRETRAINED] - accuracy["tfidf"], accuracy["tfidf"])]
            if "tfidf" in accuracy
            else []
        ),
    ]


def shortened(results: Mapping[str, Any]) -> str:
    """Describe what was left out to end in time and what more minutes would give, if anything."""
    plan, steps = results["plan"], results["pretraining"]["steps"]
    if plan is None:
        return FEW_STEPS if steps < LEARNING_STEPS else ""
    sentences = []
    if steps < NEARLY_ALL * plan["full_steps"]:
        sentences.append(
            f"This computer trained {steps:,} of the {plan['full_steps']:,} steps of pre-training "
            "that this demo plans, so that everything ends within five minutes. A model that has "
            "seen less text guesses fewer of the hidden tokens, and helps less with the question."
        )
    if steps < LEARNING_STEPS:
        sentences.append(FEW_STEPS)
    if (draws := results["question"]["num_draws"]) < plan["full_draws"]:
        known = "less well known" if draws > 1 else "not known"
        sentences.append(
            f"The question was learned with {draws} choice{'s' * (draws > 1)} of labelled "
            f"paragraphs instead of {plan['full_draws']}, so how much the results depend on that "
            f"choice is {known}."
        )
    if (least := plan["scale"]["finetune_steps"]) < plan["full_finetune_steps"]:
        sentences.append(
            f"Fine-tuning took {least} steps instead of {plan['full_finetune_steps']}, so the "
            "answers may be less good than the labels allow."
        )
    if not sentences:
        return ""
    return " ".join(
        [
            *sentences,
            f"Pre-training alone needs about {plan['full_seconds'] / 60:.1f} minutes here for all "
            f"its steps. To give it that time: bertsmith demo --minutes {plan['full_minutes']}.",
        ]
    )


def _gain(difference: float) -> str:
    if abs(difference) < WIDE_MARGIN:
        return "made no difference"
    return f"was worth {100 * difference:.1f} points" if difference > 0 else (
        f"cost {-100 * difference:.1f} points"
    )  # fmt: skip


def _against_words(difference: float, accuracy: float) -> str:
    name = "Counting words (TF-IDF with logistic regression)"
    if abs(difference) < WIDE_MARGIN:
        return f"{name} does as well, {unbroken_percent(accuracy)}."
    if difference > 0:
        return f"{name} gets {unbroken_percent(accuracy)}."
    return (
        f"{name} is still ahead with {unbroken_percent(accuracy)}, and needs no pre-training. "
        "Longer pre-training (--minutes) may change that."
    )


def duration(seconds: float) -> str:
    """Format seconds in words.

    >>> duration(59.6), duration(241)
    ('1 minute', '4 minutes and 1 second')
    """
    minutes, rest = divmod(round(seconds), 60)
    parts = [(minutes, "minute"), (rest, "second")]
    words = [f"{number} {unit}{'s' * (number != 1)}" for number, unit in parts if number]
    return " and ".join(words) or "no time"


def next_steps(places: Places) -> list[dict[str, Any]]:
    """List commands that work as they stand, and those for the reader's own texts."""
    run, beside = program(), places.out.parent
    pretrained, classifier, corpus, test, train, dev, longer, another = (
        shell_path(place)
        for place in (places.pretrained, places.classifier, places.corpus, places.test,
                      places.train(0), places.dev, beside / "longer", beside / "classifier")
    )  # fmt: skip
    steps = {
        "Try the models of this demo": [
            f'{run} fill {pretrained} "The function returns a [MASK]."',
            f'{run} predict {classifier} "Solve the equation for its symbols."',
            f"{run} evaluate {classifier} --data {test}",
            f"{run} corpus inspect {corpus}",
        ],
        "Pre-train longer, on the same corpus": [
            f"{run} pretrain --recipe quarter-hour --corpus {corpus} --out {longer}",
            f"{run} finetune classify --model {longer} --train {train} --eval {dev} "
            f"--out {another}",
        ],
        "The same with your own texts and labels": [
            f"{run} tokenizer train texts/*.txt --vocab-size 8000 --out mine/tokenizer",
            f"{run} corpus build texts/*.txt --tokenizer mine/tokenizer --out mine/corpus",
            f"{run} pretrain --recipe quarter-hour --corpus mine/corpus --out mine/pretrained",
            f"{run} finetune classify --model mine/pretrained --train train.csv --eval dev.csv "
            "--out mine/classifier",
            f'{run} predict mine/classifier "a text of yours"',
        ],
    }
    return [{"title": title, "commands": commands} for title, commands in steps.items()]


def program() -> str:
    """Return the command that runs this program from the current folder."""
    installed = Path(sys.executable).parent / "bertsmith"
    if not installed.exists():
        return f"{Path(sys.executable).name} -m bertsmith"
    here = Path.cwd()
    found = installed.relative_to(here) if installed.is_relative_to(here) else installed
    return shell_path(found)
