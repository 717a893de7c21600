"""`bertsmith demo`: the documentation on this computer → a BERT, its score, and a report."""

import json as json_module
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import tyro

from bertsmith.demo.job import DemoSettings, run_demo
from bertsmith.demo.page import shortened
from bertsmith.training.display import Display


def main(settings: Annotated[DemoSettings, tyro.conf.arg(name="")], json: bool = False) -> None:
    """Train and evaluate a BERT on the documentation that is on this computer.

    Learns a vocabulary from the documentation of Python and of the installed packages, pre-trains a
    small BERT on it, fine-tunes it with a few labelled paragraphs to tell which library a text is
    about, and compares it with the same model without pre-training and with plain methods. Needs no
    download. At the end, open report.html.

    Args:
        json: Print one JSON object instead of text.
    """
    with Display() as display:
        results = run_demo(settings, say=say, callbacks=[display])
    print(json_module.dumps(results) if json else "\n".join(describe(results)))


def say(line: str) -> None:
    """Print a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def describe(results: dict[str, Any]) -> Iterator[str]:
    """Yield three lines of results and the path of the report."""
    pretraining, seconds = results["pretraining"], results["seconds"]["total"]
    accuracy = {row["name"]: row["accuracy"]["mean"] for row in results["comparison"]}
    num_labels = results["question"]["num_train"]
    yield (
        f"pre-training   {pretraining['held_out_mlm_accuracy']:.1%} of the hidden words right on "
        f"held-out text, after {pretraining['real_tokens']:,} tokens"
    )
    yield (
        f"the question   {accuracy['pretrained']:.1%} right with pre-training, "
        f"{accuracy['untrained']:.1%} without (same model, {num_labels} labels)"
    )
    yield (
        f"plain methods  {accuracy['tfidf']:.1%} TF-IDF with logistic regression, "
        f"{accuracy['majority']:.1%} always the most frequent answer"
    )
    if note := shortened(results):
        yield f"note           {note}"
    yield f"report         {results['out']}/report.html  ({seconds:.0f} s in all)"
