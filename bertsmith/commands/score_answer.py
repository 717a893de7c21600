"""`bertsmith score answer`: questions, right and predicted answers → the official metrics."""

import json as json_module
from pathlib import Path

from bertsmith.evaluation.score import score_answer_files
from bertsmith.metrics.answers import ScoredLanguage


def main(
    gold: Path,
    predictions: Path,
    no_answer_probs: Path | None = None,
    no_answer_threshold: float | None = None,
    language: ScoredLanguage = "auto",
    json: bool = False,
) -> None:
    """Score answers to questions by any system, without a model.

    The metrics are those of the official scorers of SQuAD 1.1 and, where a question has no answer
    or --no-answer-probs is given, of SQuAD 2.0; for Chinese those of CMRC 2018.

    Args:
        gold: Questions with their right answers: .json in SQuAD's format, or .jsonl; also as .gz,
            .xz or .zst.
        predictions: The answers: .json, one object from each question's id to the answer (empty
            where there is none), or .jsonl as written by bertsmith predict --out.
        no_answer_probs: How likely each question has no answer: .json, one object from each
            question's id to a number, or .jsonl as written by bertsmith predict --out. Also shows
            the best thresholds.
        no_answer_threshold: Take back the answers whose number in --no-answer-probs is above this;
            1 where not given, and none of a .jsonl, whose numbers are differences of logits, by
            which its answers go already.
        language: Compare words as SQuAD does (en), or characters as CMRC 2018 does (zh). auto: zh
            where most of the right answers hold Chinese characters.
        json: Print one JSON object instead of text.
    """
    result = score_answer_files(
        gold,
        predictions,
        no_answer_probs=no_answer_probs,
        threshold=no_answer_threshold,
        language=language,
    )
    print(json_module.dumps(result.to_json()) if json else result)
