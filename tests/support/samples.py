"""Something to learn for every task: what the contract's tests know about one.

A new task adds a function here that writes a file of examples of the tiny vocabulary, and an
entry in `SAMPLES`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tiny_models import BAD, GOOD, OTHER, save_tiny, write_csv, write_reviews

from bertsmith.tasks.catalog import task_named


@dataclass(frozen=True)
class Sample:
    """A task's data and what is to be expected of it.

    `write(path, count, seed)` writes that many examples, in which the answer is plain from the
    words; `file` is the name it wants; `figure` is one of the evaluation's, that must exceed
    `learnt` after a short training; `transformers` is the class that opens the folder.
    """

    write: Callable[[Path, int, int], Path]
    file: str
    figure: str
    learnt: float
    transformers: str
    settings: dict[str, Any] = field(default_factory=dict)
    words: Sequence[str] = ("a good film", "dull and awful")

    def write_split(self, folder: Path, **counts: int) -> dict[str, Path]:
        """Write files of `counts` examples, each into a folder of its name; give their paths."""
        paths = {name: folder / name / self.file for name in counts}
        for seed, (name, path) in enumerate(paths.items()):
            path.parent.mkdir(parents=True)
            self.write(path, counts[name], seed)
        return paths


def write_scores(path: Path, count: int, seed: int = 0) -> Path:
    """Pairs of texts, scored by how many good words and how few bad ones they hold."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        texts = [list(rng.choice(GOOD + BAD + OTHER[:7], rng.integers(2, 9))) for _ in "ab"]
        words = [*texts[0], *texts[1]]
        score = sum(word in GOOD for word in words) - sum(word in BAD for word in words)
        rows.append([*(" ".join(text) for text in texts), 10 + 0.5 * score])
    return write_csv(path, ["text", "text_pair", "label"], *rows)


def write_questions(path: Path, count: int, seed: int = 0) -> Path:
    """Which word of the passage is good, or bad, as the question wants it?"""
    rng = np.random.default_rng(seed)
    articles = []
    for number in range(count):
        asked, words, others = [("good", GOOD, BAD), ("bad", BAD, GOOD)][rng.integers(2)]
        text = list(rng.choice(OTHER[:7], rng.integers(2, 40)))
        answer = str(rng.choice(words))
        for word in (answer, rng.choice(others)):
            text.insert(rng.integers(len(text) + 1), word)
        context = " ".join(text)
        qa = {
            "id": f"q{number}",
            "question": f"the {asked} .",
            "answers": [{"text": answer, "answer_start": context.index(answer)}],
        }
        articles.append({"paragraphs": [{"context": context, "qas": [qa]}]})
    path.write_text(json.dumps({"data": articles}))
    return path


def write_names(path: Path, count: int, seed: int = 0) -> Path:
    """Sentences in CoNLL columns in which good words are people and bad ones places, in IOB1."""
    rng = np.random.default_rng(seed)
    types = {word: type_ for words, type_ in ((GOOD, "PER"), (BAD, "LOC")) for word in words}
    with path.open("w", newline="") as file:
        for _ in range(count):
            for word in rng.choice(GOOD + BAD + OTHER[:7], rng.integers(2, 9)).tolist():
                file.write(f"{word} {'I-' + types[word] if word in types else 'O'}\n")
            file.write("\n")
    return path


def write_choices(path: Path, count: int, seed: int = 0) -> Path:
    """Prompts whose right choice is the only one with a good word; they have two to four."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for _ in range(count):
            prompt = " ".join(rng.choice(OTHER[:7], rng.integers(2, 9)))
            label, size = int(rng.integers(2)), int(rng.integers(2, 5))
            choices = [f"a {rng.choice(BAD)} {rng.choice(OTHER[:7])}" for _ in range(size)]
            choices[label] = f"a {rng.choice(GOOD)} {rng.choice(OTHER[:7])}"
            row = {"prompt": prompt, "choices": choices, "label": label}
            file.write(json.dumps(row) + "\n")
    return path


def write_likeness(path: Path, count: int, seed: int = 0) -> Path:
    """Pairs of texts that are alike where both have a good word, or both a bad one."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        kinds = [(GOOD, BAD)[kind] for kind in rng.integers(2, size=2)]
        texts = [f"{rng.choice(OTHER[:7])} {rng.choice(kind)}" for kind in kinds]
        rows.append([*texts, 5.0 if kinds[0] is kinds[1] else 1.0])
    return write_csv(path, ["sentence1", "sentence2", "score"], *rows)


def write_topics(path: Path, count: int, seed: int = 0) -> Path:
    """Texts with the labels of the words in them, which may be several, or none."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        words = [*rng.choice(OTHER[:7], rng.integers(2, 7))]
        chosen = [name for name in ("good", "bad", "fine") if rng.random() < 0.4]
        rows.append([" ".join(rng.permutation([*words, *chosen])), " | ".join(chosen)])
    return write_csv(path, ["text", "label"], *rows)


SAMPLES = {
    "answer": Sample(
        write_questions, "a.json", "f1", 80, "AutoModelForQuestionAnswering", {"stride": 7},
        words=("the good .", "a lovely film and a bad story"),
    ),
    "classify --multi-label": Sample(
        write_topics, "a.csv", "micro_f1", 0.9, "AutoModelForSequenceClassification",
        {"multi_label": True, "label_separator": "|"},
    ),
    "classify": Sample(
        write_reviews, "a.csv", "accuracy", 0.8, "AutoModelForSequenceClassification"
    ),
    "choose": Sample(
        write_choices, "a.jsonl", "accuracy", 0.8, "AutoModelForMultipleChoice",
        words=("the film was", "good", "dull and awful"),
    ),
    "embed": Sample(write_likeness, "a.csv", "spearman", 0.8, "AutoModel"),
    "regress": Sample(write_scores, "a.csv", "pearson", 0.8, "AutoModelForSequenceClassification"),
    "tag": Sample(write_names, "a.conll", "f1", 0.7, "AutoModelForTokenClassification"),
}  # fmt: skip

TEXT = {"text": "a good film"}
RECORDS: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "classify": (("neg", "pos"), "text-classification", TEXT),
    "multi_label": (("neg", "pos"), "text-classification", TEXT | {"pair": "a bad one"}),
    "regress": ((), "text-classification", TEXT),
    "tag": (("O", "B-X"), "token-classification", TEXT),
    "answer": ((), "question-answering", {"question": "the film ?", "context": "a good film"}),
    "choose": ((), "multiple-choice", {"text": "the film was", "choices": ["good", "bad"]}),
    "masked_lm": ((), "fill-mask", {"text": "a [MASK] film"}),
    "": ((), "feature-extraction", TEXT),
    "embed": ((), "sentence-similarity", {"text": "a good film", "pair": "a bad one"}),
}
"""For each head the labels of a model, its task, and a record that its predictor reads."""


def prepare(name: str, folder: Path, train: int, held_out: int, **changes: Any) -> Any:
    """Write a model and so many examples; give the task and settings to fine-tune with."""
    sample, task = SAMPLES[name], task_named(name.split()[0])
    known = {"device": "cpu", "precision": "fp32", **sample.settings, **changes}
    files = sample.write_split(folder / "data", train=train, eval=held_out)
    model = known.pop("model", None) or save_tiny(folder / "start")
    return task, task.settings(model=model, out=folder / "out", **files, **known)
