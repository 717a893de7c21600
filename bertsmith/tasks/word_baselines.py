"""The baseline of token classification: a simple method that a model must beat."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.data.tagged import TaggedSentence
from bertsmith.errors import InputError
from bertsmith.metrics.entities import TagCounts
from bertsmith.tasks.baseline import Baseline, Baselines, most_frequent


class WordBaselines(Baselines):
    """Each word's most frequent label in training; for a new word, the most frequent of all."""

    def score_cheap(
        self,
        task: Any,
        train: Sequence[TaggedSentence],
        held_out: Sequence[TaggedSentence],
        initial_scores: Mapping[str, float],
    ) -> list[Baseline]:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for sentence in train:
            for word, label in zip(sentence.words, sentence.labels, strict=True):
                counts[word][label] += 1
        label_counts = Counter(label for sentence in train for label in sentence.labels)
        label_of_new_words = most_frequent(label_counts)
        label_of_word = {word: most_frequent(labels) for word, labels in counts.items()}
        # The scheme of the labels, such as IOB2. In the scheme "plain" there are no entities.
        scheme = train[0].scheme
        total = TagCounts(scheme)  # adds up right words and spans
        try:
            for sentence in held_out:
                answers = [label_of_word.get(word, label_of_new_words) for word in sentence.words]
                total.add(sentence.labels, answers, gold_scheme=sentence.scheme)
        except InputError:  # the labels of one file cannot be written in the scheme of the other
            return []
        report = total.report()
        scores = {"accuracy": report.accuracy, "macro_f1": report.macro_f1}
        if scheme != "plain":
            scores = {"f1": report.f1, **scores}
        return [Baseline("words", "each word's most frequent label", scores)]
