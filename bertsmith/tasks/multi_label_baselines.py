"""The baselines of multi-label classification: simple methods that a model must beat."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import Example
from bertsmith.data.json_rows import list_names
from bertsmith.data.labels import label_flags
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.json_text import parse_json
from bertsmith.tasks.baseline import Baseline, Baselines
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.tfidf import multi_label_scores, score_tfidf_of_several


class MultiLabelBaselines(Baselines):
    """The most frequent set of labels, and TF-IDF for each label."""

    def gold_keys(self, task: Any, examples: Sequence[Example]) -> list[str]:
        """Return the labels of each text as a JSON list, a string that can be counted."""
        return [
            json.dumps(
                [name for name, flag in zip(task.labels, row, strict=True) if flag],
                ensure_ascii=False,
            )
            for row in _label_flags(task, examples)
        ]

    def is_gold_key(self, text: str) -> bool:
        try:
            names = parse_json(text)
        except ValueError:
            return False
        return isinstance(names, list) and all(isinstance(name, str) for name in names)

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        names = parse_json(answer)
        flags_of_keys = np.array([np.isin(task.labels, parse_json(key)) for key in gold])
        true = np.repeat(flags_of_keys, list(gold.values()), axis=0)  # a row for each text
        predicted = np.broadcast_to(np.isin(task.labels, names), true.shape)
        report = MultiLabelReport.of(LabelCounts.of(true, predicted), task.labels)
        method = f"always {list_names(names)}" if names else "always no label"
        return Baseline("majority", method, multi_label_scores(report), answer)

    def score_costly(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        flags, gold = _label_flags(task, train), _label_flags(task, held_out)
        baseline = score_tfidf_of_several(train, held_out, flags, gold, task.labels)
        return [] if baseline is None else [baseline]


def _label_flags(task: Any, examples: Sequence[Example]) -> NDArray[np.bool_]:
    """Return whether each text has each label, bool `[texts, labels]`."""
    # The labels were checked when they were read, so no error names the placeholder of a file.
    return label_flags(examples, task.labels, task.label_separator, CHECKED_EXAMPLES)
