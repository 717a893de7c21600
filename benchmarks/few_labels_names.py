"""Named entities with few labels, for benchmarks/few_labels.py: each word has a label.

Word counts, a linear head and training on pairs of texts are about whole texts, so only fine-tuning
is measured. The baseline gives each word its most frequent label.
"""

import time
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import bertsmith
from benchmarks.common import core_seconds
from bertsmith.data.label_schemes import convert_labels
from bertsmith.data.tagged import TaggedSentence
from bertsmith.tasks.word_baselines import WordBaselines

NAMES = "CoNLL names"
WORD_LABELS = "each word's most frequent label"

Sentences = tuple[list[list[str]], list[list[str]]]
"""The words of sentences, and their labels in the scheme IOB2."""


def read_sentences(path: Path) -> Sentences:
    """Read the sentences of a CoNLL-2003 file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    blocks = [[*group] for has_words, group in groupby(lines, key=bool) if has_words]
    rows = [[line.split(" ") for line in block] for block in blocks if "-DOCSTART-" not in block[0]]
    words = [[row[0] for row in block] for block in rows]
    labels = [convert_labels([row[-1] for row in block], "IOB1", "IOB2") for block in rows]
    return words, labels


def draw_sentences(sentences: Sentences, count: int, seed: int) -> Sentences:
    """Draw a sample of sentences; with 64 of them, every kind of name occurs."""
    chosen = np.random.default_rng(seed).permutation(len(sentences[0]))[:count]
    return [sentences[0][index] for index in chosen], [sentences[1][index] for index in chosen]


def measure_names(
    model: Path | None, sample: Sentences, test: Sentences, seed: int
) -> dict[str, Any]:
    """Learn from a sample: F1 of the names in the eval sentences, and seconds of training.

    Without a model, each word gets its most frequent label.
    """
    if model is None:
        learned, held_out = map(as_tagged, (sample, test))
        (baseline,) = WordBaselines().score_cheap(None, learned, held_out, {})
        return {"f1": baseline.scores["f1"]}
    began, began_core = time.perf_counter(), core_seconds()
    tagger = bertsmith.TokenClassifier(model, seed=seed, verbose=0).fit(*sample, eval=None)
    seconds, used = time.perf_counter() - began, core_seconds() - began_core
    return {"f1": tagger.score(*test), "seconds": seconds, "core_seconds": used}


def as_tagged(sentences: Sentences) -> list[TaggedSentence]:
    """Build the sentences as bertsmith reads them from a file."""
    return [
        TaggedSentence(tuple(words), tuple(labels), scheme="IOB2")
        for words, labels in zip(*sentences, strict=True)
    ]
