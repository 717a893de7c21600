"""`bertsmith embed`: a model and texts → their vectors, in the order of the texts."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.settings.embed import Settings
from bertsmith.data.examples import ExampleReader
from bertsmith.data.tables import check_delimiter, check_has_columns
from bertsmith.data.text_files import name_source
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.data.vectors import check_format, vector_writer
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.system.counts import count_noun
from bertsmith.system.output_files import lock_outputs
from bertsmith.system.progress import only_bar
from bertsmith.tasks.predictor import Predictor, in_chunks
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.training.workers.rank_group import joined_ranks


def main(settings: Settings, line: Sequence[str]) -> None:
    """Write the vectors of the texts of a file, and print a report.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    file, out = settings.file, settings.out
    check_format(out)
    check_delimiter(settings.columns, file)
    check_has_columns(settings.columns, file)
    # Locks the output, and refuses one that is the input or a file of the model.
    with lock_outputs({"--out": out}, file, settings.model):
        encoder = Predictor.load(
            settings.model,
            TextVectors,
            device=settings.device,
            precision=settings.precision,
            max_length=settings.max_length,
            pooling=settings.pooling,
            normalize=settings.normalize,
        )
        print_note(encoder.loaded.precision_note)
        encoder.unknown_tokens.is_reported = True  # the warning is printed below, after the result
        encoder.ranks = joined_ranks()  # the processes that torchrun started; None without it
        texts = ExampleReader(file, settings.columns, labelled=False, pairs=False)
        report = embed(encoder, texts, out)
    if settings.json:
        print_json(report)
    else:
        print(
            f"{count_noun(report['num_texts'], 'text')} → {out}  "
            f"({report['hidden_size']} numbers each, "
            f"pooling {report['pooling']}, {report['precision']}, "
            f"{report['texts_per_second']:,.0f} texts/s)"
        )
    warn_unknown(report["unknown_rate"], name_source(file))
    counts = ReadingCounts(num_truncated=report["num_truncated"], num_skipped=report["num_skipped"])
    for note in counts.notes(lacking="a text"):
        print_note(f"{note}.")


def embed(encoder: Predictor[TextVectors], source: ExampleReader, out: Path) -> dict[str, Any]:
    """Write the vectors of all texts, chunk by chunk; return the report.

    `encoder.definition` is what the encoder computes: its pooling, normalization and length.
    """
    num_texts = num_truncated = 0
    size = encoder.loaded.model.config.hidden_size
    with only_bar("embedding", source.count) as advance, vector_writer(out, size) as write:
        started = time.perf_counter()
        for examples, predictions in encoder.predict_chunks(in_chunks(source)):
            write(examples, np.stack([each.vector for each in predictions]))
            advance(len(examples))
            num_texts += len(examples)
            num_truncated += sum(each.is_truncated for each in predictions)
        seconds = time.perf_counter() - started
    return {
        "out": str(out),
        "num_texts": num_texts,
        "num_truncated": num_truncated,
        "num_skipped": source.num_skipped,
        "unknown_rate": encoder.unknown_tokens.rate,
        "hidden_size": size,
        "pooling": encoder.definition.pooling,
        "normalize": encoder.definition.normalize,
        "max_length": encoder.definition.max_length,
        "precision": encoder.loaded.precision,
        "seconds": round(seconds, 3),
        "texts_per_second": round(num_texts / seconds, 1),
    }
