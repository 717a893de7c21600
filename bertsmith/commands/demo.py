"""`bertsmith demo`: the documentation on this computer → a BERT, its score, and a report."""

from collections.abc import Iterator, Sequence
from typing import Any

from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.settings.demo import Settings
from bertsmith.demo.job import run_demo
from bertsmith.demo.page import METHODS, MORE_MINUTES, PRETRAINED, UNTRAINED, describe_shortening
from bertsmith.system.counts import percent
from bertsmith.training.display import Display


def main(settings: Settings, line: Sequence[str]) -> None:
    """Run the demo and print its results; `display` shows how the training goes.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    with Display() as display:
        results = run_demo(settings, say=print_note, callbacks=[display])
    if settings.json:
        print_json(results)
    else:
        print("\n".join(describe_demo(results)))


def describe_demo(results: dict[str, Any]) -> Iterator[str]:
    """Format the results of the demo, line by line.

    `results` is what `run_demo` returns. In it, the methods that were compared have names: a BERT
    with pre-training and one without, and methods without a BERT.
    """
    pretraining, seconds = results["pretraining"], results["seconds"]["total"]
    right = {row["name"]: percent(row["accuracy"]["mean"]) for row in results["comparison"]}
    yield (
        f"pre-training   {percent(pretraining['held_out_mlm_accuracy'])} of the hidden "
        f"words right on held-out text, after {pretraining['real_tokens']:,} tokens"
    )
    yield (
        f"the question   {right.pop(PRETRAINED)} right with pre-training, {right.pop(UNTRAINED)} "
        f"without (same model, {results['question']['num_train']} labels)"
    )
    # The methods that are left have no BERT, such as TF-IDF.
    others = ", ".join(f"{share} {METHODS[name].title}" for name, share in right.items())
    yield f"plain methods  {others}"
    if note := describe_shortening(results):
        yield f"note           {note}"
    yield f"more minutes   {MORE_MINUTES}"
    yield f"report         {results['out']}/report.html  ({seconds:.0f} s in all)"
