"""The baselines of question answering: simple answers that a model must beat."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertsmith.data.squad import Question
from bertsmith.metrics.answers import Protocol, QuestionScores, units
from bertsmith.tasks.baseline import Baseline, Baselines


class AnswerBaselines(Baselines):
    """Two baselines: the start of the passage as the answer, and always no answer.

    The second one is scored only if some eval questions have no answer. Both are easy to beat, like
    the random guess in SQuAD's paper (Rajpurkar et al. 2016, table 5). The paper's better baselines
    need a parser.
    """

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Question],
        held_out: Sequence[Question],
        initial_scores: Mapping[str, float],
    ) -> list[Baseline]:
        is_chinese = task.language == "zh"  # without spaces, so characters count instead of words
        # The answer is as long as the median right answer of training.
        gold = [answer.text for question in train for answer in question.answers]
        lengths = [len(units(text, task.language)) for text in gold]  # in words or characters
        length = max(1, int(np.median(lengths))) if lengths else 1
        first_units = []
        for question in held_out:
            if is_chinese:
                first_units.append(question.context.strip()[:length])
            else:
                words = question.context.split(maxsplit=length)
                first_units.append(" ".join(words[:length]))
        noun = "character" if is_chinese else "word"
        amount = noun if length == 1 else f"{length} {noun}s"
        method = f"the first {amount} of each passage"
        baselines = [_score_answers("start", method, first_units, task, held_out)]
        if not all(question.answers for question in held_out):
            nothing = [""] * len(held_out)
            baselines.append(_score_answers("none", "never an answer", nothing, task, held_out))
        return baselines


def _score_answers(
    key: str, method: str, answers: Sequence[str], task: Any, held_out: Sequence[Question]
) -> Baseline:
    """Score one answer to each eval question, by SQuAD's rules or in Chinese by CMRC's."""
    scores = QuestionScores(task.language)
    for answer, question in zip(answers, held_out, strict=True):
        scores.add(answer, [gold.text for gold in question.answers])
    protocol: Protocol = "2.0" if scores.has_unanswerable else "1.1"  # versions of SQuAD
    # `pairs` returns exact match and F1 of each question.
    mean = scores.mean(scores.pairs(protocol), protocol)
    assert mean is not None  # it is None only without questions
    return Baseline(key, method, {"exact_match": mean.exact_match, "f1": mean.f1})
