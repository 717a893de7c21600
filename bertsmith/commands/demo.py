"""`bertsmith demo`: the documentation on this computer → a BERT, its score, and a report."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bertsmith.commands.flags import parse, tell
from bertsmith.demo.job import DemoSettings, run_demo
from bertsmith.demo.page import METHODS, MORE_MINUTES, PRETRAINED, UNTRAINED, shortened
from bertsmith.system.counts import percent
from bertsmith.training.display import Display


@dataclass(frozen=True)
class Settings(DemoSettings):
    """Train and evaluate a BERT on the documentation that is on this computer.

    Learns a vocabulary from the documentation of Python and of the installed packages, pre-trains a
    small BERT on it, fine-tunes it with a few labelled paragraphs to tell which library a text is
    about, and compares it with the same model without pre-training and with plain methods (one of
    them needs scikit-learn, and is left out without it). Needs no download. At the end, open
    report.html.
    """

    json: bool = False
    """Print one JSON object instead of text."""


def main(args: Sequence[str], prog: str) -> None:
    settings = parse(Settings, args, prog)
    with Display() as display:
        results = run_demo(settings, say=tell, callbacks=[display])
    print(json.dumps(results) if settings.json else "\n".join(describe_demo(results)))


def describe_demo(results: dict[str, Any]) -> Iterator[str]:
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
    plain = ", ".join(f"{share} {METHODS[name][0]}" for name, share in right.items())
    yield f"plain methods  {plain}"
    if note := shortened(results):
        yield f"note           {note}"
    yield f"more minutes   {MORE_MINUTES}"
    yield f"report         {results['out']}/report.html  ({seconds:.0f} s in all)"
