"""Scores of systems beside BERT for `bertsmith evaluate`, and the checks of its flags."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

from bertsmith.commands.first_word import find_model, parse_with_columns
from bertsmith.commands.flags import tell
from bertsmith.commands.settings.evaluate import Settings
from bertsmith.data.columns import Columns, TranslationColumns
from bertsmith.data.tables import check_delimiter
from bertsmith.data.text_files import name_source
from bertsmith.data.translation_pairs import TranslationReader
from bertsmith.data.unknown_tokens import tell_unknown
from bertsmith.errors import ConfigError
from bertsmith.evaluation.minimal_pairs import PairCallback, evaluate_minimal_pairs
from bertsmith.lineage.sentence_scores import LEFT_TO_RIGHT, SentenceScorer
from bertsmith.lineage.system_folder import read_model_type
from bertsmith.lineage.text_writing import TextWriter
from bertsmith.lineage.translation_run import score_pairs
from bertsmith.lineage.writers import WRITERS
from bertsmith.system.counts import count_noun, percent
from bertsmith.system.files import atomic_write, hold_outputs
from bertsmith.tasks.pair_scores import MinimalPair, PairScores


def evaluate_system(words: Sequence[str], prog: str) -> bool:
    """Score the model that a line names if it is a system beside BERT; return whether it is."""
    named = find_model(Settings, words)
    if named is None or not (Path(named) / "config.json").is_file():
        return False
    kind = read_model_type(Path(named))
    columns: type[Any]
    if kind in LEFT_TO_RIGHT:
        columns, score = Columns, _score_left_to_right
    elif kind in WRITERS:
        columns, score = TranslationColumns, _score_writer
    else:
        return False
    settings = parse_with_columns(Settings, columns, words, prog)
    if settings.precision not in ("auto", "fp32"):
        raise ConfigError(
            f"--precision: found {settings.precision}; {settings.model} is a system beside BERT, "
            "which is scored in fp32. Leave it out."
        )
    score(settings)
    return True


def check_flags(settings: Settings) -> None:
    """Check that either --data or --minimal-pairs is given, and that the other flags apply to it.

    Raises:
        ConfigError: they are not, or do not.
    """
    are_pairs = settings.minimal_pairs is not None
    if are_pairs == bool(settings.data):
        subject = "Both --data and" if are_pairs else "Neither --data nor"
        raise ConfigError(
            f"{subject} --minimal-pairs is given. Give --data FILE to score a fine-tuned model, or "
            "--minimal-pairs FILE to score a pre-trained one."
        )
    flag = "--data"
    names = ["scores"]
    if are_pairs:
        flag = "--minimal-pairs"
        names = ["long_texts", "stride", "label_separator", "errors", "page"]
    unfit = [name for name in names if getattr(settings, name) is not None]
    if are_pairs and getattr(settings.columns, "label_column", None):
        unfit.append("label_column")
    if unfit:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in unfit)
        verb = "have" if len(unfit) > 1 else "has"
        raise ConfigError(f"{flags} {verb} no effect with {flag}. Leave out {flags}.")
    if settings.scores and settings.scores.suffix != ".jsonl":
        raise ConfigError(f"--scores: the name must end in .jsonl, and is '{settings.scores}'.")


def write_scores(file: IO[str], pairs: Sequence[MinimalPair], scores: Sequence[PairScores]) -> None:
    for pair, score in zip(pairs, scores, strict=True):
        row = pair.to_json() | score.to_json()
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _score_left_to_right(settings: Settings) -> None:
    """Score a GPT or LSTM on minimal pairs."""
    check_flags(settings)
    if settings.minimal_pairs is None:
        raise ConfigError(
            f"{settings.model}: a model that reads from left to right is scored with "
            "--minimal-pairs FILE. It is not fine-tuned for labels: leave out --data."
        )
    path = settings.minimal_pairs
    check_delimiter(settings.columns, path)
    scorer = SentenceScorer.load(settings.model, settings.device, max_length=settings.max_length)
    with hold_outputs({"--scores": settings.scores}, path, settings.model), ExitStack() as stack:
        callbacks: list[PairCallback] = []
        if settings.scores is not None:
            file = stack.enter_context(atomic_write(settings.scores, "w"))
            callbacks.append(partial(write_scores, file))
        result = evaluate_minimal_pairs(
            scorer, path, settings.columns, limit=settings.limit, callbacks=callbacks
        )
    unknown_rate = scorer.num_unknown / max(1, scorer.num_tokens)
    tell_unknown(unknown_rate, name_source(path))
    report = {**result.to_json(), "unknown_rate": unknown_rate}
    print(json.dumps(report) if settings.json else result)


def _score_writer(settings: Settings) -> None:
    """Score a model that writes one text from another on pairs of both."""
    check_flags(settings)
    names = ("long_texts", "stride", "label_separator", "errors", "page")
    unfit = [name for name in names if getattr(settings, name) is not None]
    if settings.data is None or unfit:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in unfit) or "--minimal-pairs"
        raise ConfigError(
            f"{settings.model}: a model that writes texts is scored with --data FILE, a table of "
            f"sources and targets. Leave out {flags}."
        )
    check_delimiter(settings.columns, settings.data)
    writer = TextWriter.load(settings.model, settings.device)
    reader = TranslationReader(settings.data, settings.columns)
    scores = score_pairs(
        writer.model, reader, writer.tokenizer, settings.max_length, settings.limit
    )
    if reader.num_skipped:
        rows = count_noun(reader.num_skipped, "incomplete row was", "incomplete rows were")
        tell(f"{rows} left out")
    if settings.json:
        print(json.dumps(scores))
        return
    print(
        f"exact match     {percent(scores['exact_match'])} of the "
        f"{count_noun(scores['num_examples'], 'target')} are written token for token"
    )
    print(
        f"token accuracy  {percent(scores['token_accuracy'])} of the tokens, each after the right "
        "ones before it"
    )
    print(f"loss            {scores['loss']:.4f}")
