"""`bertsmith evaluate` for models that are no BERT: GPT, LSTM, ELMo, T5 and Transformer."""

from collections.abc import Sequence
from typing import Any

from bertsmith.commands.evaluate_flags import (
    FLAGS_OF_LABELLED_DATA,
    check_flags,
    list_options,
    used_flags,
)
from bertsmith.commands.first_word import parse_with_columns
from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.pair_evaluation import evaluate_pairs
from bertsmith.commands.settings.evaluate import Settings
from bertsmith.data.columns import Columns, TranslationColumns
from bertsmith.data.tables import check_delimiter
from bertsmith.data.text_files import name_source
from bertsmith.data.translation_pairs import TranslationReader
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import ConfigError, option
from bertsmith.lineage.sentence_scores import SCORABLE_MODEL_TYPES, load_sentence_scorer
from bertsmith.lineage.text_to_text_generation import TextToTextGenerator
from bertsmith.lineage.translation_run import score_pairs
from bertsmith.system.counts import count_noun, percent
from bertsmith.system.output_files import lock_outputs
from bertsmith.tasks.scoring import Evaluation


def evaluate_system(model_type: str, words: Sequence[str], prog: str) -> None:
    """Score the model that a command line names, which is no BERT.

    Args:
        model_type: the kind of model, as its config.json names it, such as "gpt2".
        words: the words of the command line after `prog`, the name of the command.
    """
    # A model that predicts each token of a text can score the text; others write a target.
    columns: type[Any] = Columns if model_type in SCORABLE_MODEL_TYPES else TranslationColumns
    settings = parse_with_columns(Settings, columns, words, prog)
    if settings.precision not in ("auto", "fp32"):
        raise ConfigError(
            f"--precision: found {settings.precision}; {settings.model} is not a BERT model, and "
            "other models are scored in fp32 only. Leave it out."
        )
    check_flags(settings)
    if model_type in SCORABLE_MODEL_TYPES:
        _score_by_pairs(settings)
    else:
        _score_text_to_text(settings)


def _score_by_pairs(settings: Settings) -> None:
    """Score a model that predicts each token of a text on minimal pairs."""
    if settings.minimal_pairs is None:
        raise ConfigError(
            f"{settings.model}: a model that predicts each token of a text is scored with "
            "--minimal-pairs FILE. It is not fine-tuned for labels: leave out --data."
        )
    path = settings.minimal_pairs
    check_delimiter(settings.columns, path)
    scorer = load_sentence_scorer(settings.model, settings.device, max_length=settings.max_length)

    def print_scores(result: Evaluation) -> None:
        unknown_rate = scorer.num_unknown / max(1, scorer.num_tokens)
        warn_unknown(unknown_rate, name_source(path))
        report = {**result.to_json(), "unknown_rate": unknown_rate}
        if settings.json:
            print_json(report)
        else:
            print(result)

    # Locks the file of scores, and refuses one that is the input or a file of the model.
    with lock_outputs({"--scores": settings.scores}, path, settings.model):
        evaluate_pairs(settings, scorer, path, print_scores)


def _score_text_to_text(settings: Settings) -> None:
    """Score a model that writes one text from another on pairs of a source and its target."""
    unfit = used_flags(settings, FLAGS_OF_LABELLED_DATA)
    if settings.data is None or unfit:
        unfit_options = list_options(unfit) or option("minimal_pairs")
        raise ConfigError(
            f"{settings.model}: a model that writes texts is scored with "
            f"{option('data', placeholder='FILE')}, a table of sources and targets. Leave out "
            f"{unfit_options}."
        )
    check_delimiter(settings.columns, settings.data)
    generator = TextToTextGenerator.load(settings.model, settings.device)
    reader = TranslationReader(settings.data, settings.columns)
    scores = score_pairs(
        generator.model, reader, generator.tokenizer, settings.max_length, settings.limit
    )
    if reader.num_skipped:
        rows = count_noun(reader.num_skipped, "incomplete row was", "incomplete rows were")
        print_note(f"{rows} left out")
    if settings.json:
        print_json(scores)
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
