"""The page `report.html` about a demo, written for a reader new to BERT."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bertsmith.pages.page import unbroken_percent, write_page
from bertsmith.pages.scale import Scale
from bertsmith.system.paths import shell_path
from bertsmith.training.curves import build_charts
from bertsmith.training.findings import LEARNING_STEPS
from bertsmith.training.journal import read_journal
from bertsmith.training.run_folder import RunFolder


class Method(NamedTuple):
    """A method that the page compares, as it is shown."""

    title: str
    description: str


PRETRAINED, UNTRAINED = "pretrained", "untrained"
METHODS = {
    PRETRAINED: Method(
        "pre-trained BERT",
        "read the documentation first, then learned from the labelled paragraphs",
    ),
    UNTRAINED: Method(
        "the same BERT without pre-training",
        "random weights, then the same fine-tuning on the same paragraphs",
    ),
    "tfidf": Method(
        "TF-IDF with logistic regression",
        "counts words and pairs of words, weighs rare ones more; no neural network",
    ),
    "majority": Method("always the most frequent answer", "does not look at the text"),
}
"""The methods that the page compares, by their names in demo.json."""

MORE_MINUTES = (
    "on film reviews, a model of this size guessed 29 % of the hidden tokens after 4 minutes of "
    "pre-training, 35 % after 15 and 40 % after 60"
)
"""Measured effect of more minutes. The figures are in the rows minutes-4, quarter-hour and
minutes-60 of benchmarks/results/quality.md."""
FINETUNE_STEPS = 200
"""Steps of a fine-tuning that has enough time."""
EQUAL_BELOW = 0.005
"""Difference in accuracy below which the page calls two models equal."""


def write_demo_page(out: Path, results: Mapping[str, Any]) -> None:
    """Write the report of a demo whose models and journal are already in `out`.

    Args:
        results: the content of demo.json, which `run_demo` returns. Its `comparison` has a row for
            each method.
    """
    rows = [{**row, **METHODS[row["name"]]._asdict()} for row in results["comparison"]]
    by_name = {row["name"]: row for row in rows}
    pretrained = RunFolder(out / "pretrained")
    write_page(
        out / "report.html",
        "demo/page.html",
        **{**results, "comparison": rows},
        pretrained=by_name[PRETRAINED],
        untrained=by_name[UNTRAINED],
        verdict=describe_verdict(results["comparison"]),
        shortened=describe_shortening(results),
        more_minutes=MORE_MINUTES,
        charts=build_charts(read_journal(pretrained.journal_path), pretrained.read_run()),
        scale=Scale(0, 1),
        next_steps=list_next_steps(out),
    )


def describe_verdict(comparison: Sequence[Mapping[str, Any]]) -> str:
    """Say in sentences what pre-training was worth, and whether counting words does as well.

    Args:
        comparison: the `name` of each method and its `accuracy`, of which `mean` is a share.
    """
    accuracy = {row["name"]: row["accuracy"]["mean"] for row in comparison}
    shown = {name: unbroken_percent(share) for name, share in accuracy.items()}
    gain = accuracy[PRETRAINED] - accuracy[UNTRAINED]
    effect = f"was worth {100 * gain:.1f} points" if gain > 0 else f"cost {-100 * gain:.1f} points"
    if abs(gain) < EQUAL_BELOW:
        effect = "made no difference"
    sentences = (
        f"Pre-training {effect}: the model gets {shown[PRETRAINED]} of the answers right with it, "
        f"{shown[UNTRAINED]} without."
    )
    if "tfidf" not in accuracy:
        return sentences
    lead = accuracy[PRETRAINED] - accuracy["tfidf"]
    result = f"gets {shown['tfidf']}."
    if abs(lead) < EQUAL_BELOW:
        result = f"does as well, {shown['tfidf']}."
    elif lead < 0:
        result = (
            f"is still ahead with {shown['tfidf']}, and needs no pre-training. Longer pre-training "
            "(--minutes) may change that."
        )
    return f"{sentences} Counting words (TF-IDF with logistic regression) {result}"


def describe_shortening(results: Mapping[str, Any]) -> str:
    """Describe the parts that were shortened for lack of time; empty if none was."""
    question = results["question"]
    sentences = []
    if results["pretraining"]["steps"] < LEARNING_STEPS:
        sentences.append(
            f"In fewer than {LEARNING_STEPS} steps the model learns only how frequent tokens are, "
            "so the figures do not show the value of pre-training."
        )
    if question["num_draws"] == 1:
        sentences.append(
            "There was time for one choice of labelled paragraphs, so how much the results depend "
            "on that choice is not known."
        )
    if question["finetune_steps"] < FINETUNE_STEPS:
        sentences.append(
            f"A fine-tuning took {question['finetune_steps']} steps instead of {FINETUNE_STEPS}, "
            "so the answers may be less good than the labels allow."
        )
    if sentences:
        sentences.append(
            "Repeat the demo when the computer is less busy, or give it more time: "
            f"{find_program()} demo --minutes {2 * results['minutes']:g}."
        )
    return " ".join(sentences)


def list_next_steps(out: Path) -> list[dict[str, Any]]:
    """List commands to try next; the last ones need texts and labels of the reader."""
    run = find_program()
    question = out / "question"
    pretrained, classifier, corpus, test, train, dev, longer, another = (
        shell_path(path)
        for path in (out / "pretrained", out / "classifier", out / "corpus", question / "test.csv",
                     question / "train.csv", question / "dev.csv", out.parent / "longer",
                     out.parent / "classifier")
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


def find_program() -> str:
    """Return the command that starts bertsmith from the current folder."""
    installed = Path(sys.executable).parent / "bertsmith"
    if not installed.exists():
        return f"{Path(sys.executable).name} -m bertsmith"
    here = Path.cwd()
    program_path = installed.relative_to(here) if installed.is_relative_to(here) else installed
    return shell_path(program_path)
