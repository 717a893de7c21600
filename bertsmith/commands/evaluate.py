"""`bertsmith evaluate`: a fine-tuned model and labelled texts → its scores."""

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.data.examples import Columns, read_examples
from bertsmith.evaluate import evaluate_classifier
from bertsmith.predict import as_text
from bertsmith.tasks.agreement import SAMPLED_FROM, label_agreement
from bertsmith.tasks.classify import Classifier


def main(
    model: tyro.conf.Positional[Path],
    data: Path,
    columns: Annotated[Columns, tyro.conf.arg(name="")] = Columns(),  # noqa: B008 - frozen
    limit: int | None = None,
    max_length: int | None = None,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto",
    json: bool = False,
) -> None:
    """Score a fine-tuned model on labelled texts.

    Shows the share of right labels (accuracy), the mean F1 of the classes (macro-F1), how well
    each class was recognized, and which classes were taken for which (confusion matrix).

    Args:
        model: Folder of a fine-tuned model.
        data: Labelled texts: .csv, .tsv or .jsonl, also as .gz, .xz or .zst.
        limit: Take only the first so many rows.
        max_length: Cut texts to this many tokens; as in training where not given.
        device: auto, cpu, cuda, cuda:1, mps.
        precision: Number format of the computation: fp32, bf16, int8 (on a CPU; the fastest, and
            the least exact), or auto for the faster of fp32 and bf16.
        json: Print one JSON object instead of text.
    """
    classifier = Classifier.load(model, device=device, precision=precision, max_length=max_length)
    result = evaluate_classifier(classifier, data, columns, limit=limit)
    report = result.to_json()
    precision = classifier.loaded.precision
    if precision != "fp32":
        examples, _ = read_examples(data, columns, limit=min(limit or SAMPLED_FROM, SAMPLED_FROM))
        agreement = label_agreement(classifier, [as_text(example) for example in examples])
        report["labels_beside_fp32"] = agreement._asdict()
        print(agreement.sentence(precision), file=sys.stderr)
    print(json_module.dumps(report) if json else result)
