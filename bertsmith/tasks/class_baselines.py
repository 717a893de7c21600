"""The baselines of text classification: simple methods that a model must beat."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.data.labels import class_numbers
from bertsmith.metrics.class_report import summarize
from bertsmith.system.compute import InferenceCompute
from bertsmith.tasks.baseline import Baseline, Baselines
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.tfidf import score_tfidf


class ClassBaselines(Baselines):
    """The most frequent label, and TF-IDF."""

    def gold_keys(self, task: Any, examples: Sequence[Example]) -> list[str]:
        """Return the label of each example."""
        # The labels were checked when they were read, so no error names the placeholder of a file.
        return [
            task.labels[number] for number in class_numbers(examples, task.labels, CHECKED_EXAMPLES)
        ]

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        labels = sorted({*gold, answer})
        # [gold labels, predicted labels], of which only the column of `answer` has counts.
        confusion = np.zeros((len(labels), len(labels)), np.int64)
        confusion[:, labels.index(answer)] = [gold.get(label, 0) for label in labels]
        report = summarize(confusion, labels)
        scores = {"accuracy": report.accuracy, "macro_f1": report.macro_f1}
        return Baseline("majority", f"always {answer!r}", scores, answer)

    def score_costly(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        baseline = score_tfidf(train, held_out)
        return [] if baseline is None else [baseline]
