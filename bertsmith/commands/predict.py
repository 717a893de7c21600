"""`bertsmith predict`: a fine-tuned model and texts → their labels."""

import json as json_module
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from bertsmith.data.encoded_texts import Text
from bertsmith.data.examples import Columns, Example, ExampleReader
from bertsmith.data.tables import STANDARD_INPUT
from bertsmith.errors import ConfigError, InputError
from bertsmith.files import atomic_write
from bertsmith.predict import as_text, iter_predictions, to_json
from bertsmith.tasks.agreement import SAMPLED_FROM, label_agreement
from bertsmith.tasks.classify import Classifier


def main(
    model: tyro.conf.Positional[Path],
    text: tyro.conf.Positional[tuple[str, ...]] = (),
    file: Path | None = None,
    columns: Annotated[Columns, tyro.conf.arg(name="")] = Columns(),  # noqa: B008 - frozen
    out: Path | None = None,
    max_length: int | None = None,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto",
    json: bool = False,
) -> None:
    """Classify new texts.

    Prints a line for each text: its label, how sure the model is (0 to 1), and the text.

    Args:
        model: Folder of a fine-tuned model.
        text: Texts to classify, each in quotes; or - to read one text per line from standard
            input.
        file: Texts to classify: .txt with one text per line, or .csv, .tsv, .jsonl; also as .gz,
            .xz or .zst.
        out: Write one JSON object per text to this .jsonl file instead. Files of any size will do.
        max_length: Cut texts to this many tokens; as in training where not given.
        device: auto, cpu, cuda, cuda:1, mps.
        precision: Number format of the computation: fp32, bf16, int8 (on a CPU; the fastest, and
            the least exact), or auto for the faster of fp32 and bf16.
        json: Print one JSON object, which holds all predictions, instead of lines.
    """
    source = texts_to_classify(text, file, columns)
    classifier = Classifier.load(model, device=device, precision=precision, max_length=max_length)
    first: list[Text] = []
    rows = (to_json(*pair) for pair in iter_predictions(classifier, noting(first, source)))
    totals = {"num_texts": 0, "num_truncated": 0, "num_skipped": 0}
    counted = count(rows, totals, source)
    report: dict[str, Any] = {}
    if out is not None:
        write_lines(out, counted)
        report = {"out": str(out), **totals}
        if not json:
            print(f"{totals['num_texts']:,} texts → {out}")
    elif json:
        report = {"model": str(model), "predictions": list(counted), **totals}
    else:
        for row in counted:
            print(line(row))
    # A model is loaded for this a second time, which a few texts are not worth.
    if file is not None and classifier.loaded.precision != "fp32":
        agreement = label_agreement(classifier, first)
        report["labels_beside_fp32"] = agreement._asdict()
        print(agreement.sentence(classifier.loaded.precision), file=sys.stderr)
    if json:
        print(json_module.dumps(report, ensure_ascii=False, allow_nan=False))
    for name, number in list(totals.items())[1:]:
        if number:
            print(NOTES[name].format(number=number), file=sys.stderr)


NOTES = {
    "num_truncated": "{number:,} texts were longer than the model reads; their ends had no part.",
    "num_skipped": "{number:,} rows without a text were skipped.",
}


def noting(first: list[Text], source: Iterable[Example]) -> Iterator[Example]:
    """Pass examples on and keep the texts of the first `SAMPLED_FROM` in `first`."""
    for example in source:
        if len(first) < SAMPLED_FROM:
            first.append(as_text(example))
        yield example


def count(
    rows: Iterable[dict[str, Any]], totals: dict[str, int], source: Iterable[Example]
) -> Iterator[dict[str, Any]]:
    """Pass rows on and fill `totals` meanwhile."""
    for row in rows:
        totals["num_texts"] += 1
        totals["num_truncated"] += row["is_truncated"]
        yield row
    totals["num_skipped"] = source.num_skipped if isinstance(source, ExampleReader) else 0


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line; a file that stood there is replaced when all is done."""
    with atomic_write(path, "w") as file:
        for row in rows:
            file.write(json_module.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def line(row: dict[str, Any]) -> str:
    """Label, probability and text, divided by tabs; white space in the text becomes one space."""
    texts = [" ".join(row[name].split()) for name in ("text", "pair") if name in row]
    return "\t".join([row["label"], f"{row['probability']:.4f}", *texts])


def texts_to_classify(
    text: tuple[str, ...], file: Path | None, columns: Columns
) -> Iterable[Example]:
    """The texts that the command line names, from exactly one place."""
    if bool(text) == bool(file):
        raise ConfigError("Give texts, or --file F, or - for standard input; exactly one of them.")
    if text == ("-",):
        file = STANDARD_INPUT
    if file is not None:
        return ExampleReader(file, columns, labelled=False)
    for number, part in enumerate(text, start=1):
        if not part.strip():
            raise InputError(f"text {number} is empty. Give each text in quotes.")
    return [Example(part, row=number) for number, part in enumerate(text, start=1)]
