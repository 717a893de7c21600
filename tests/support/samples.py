"""Examples for every task, from which a tiny model learns it, for tests that run on all tasks.

A new task adds a function here that writes a file of examples with words of the tiny vocabulary,
and an entry in `SAMPLES`.
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
    """Data for a task, and the result of a training on it.

    `write(path, count, seed)` writes `count` examples to a file that is called `file`; their words
    make the answers obvious. After a short training, the score `figure` must exceed `min_score`.
    `transformers` is the class of transformers that opens the trained model's folder.
    """

    write: Callable[[Path, int, int], Path]
    file: str
    figure: str
    min_score: float
    transformers: str
    settings: dict[str, Any] = field(default_factory=dict)
    words: Sequence[str] = ("a good film", "dull and awful")

    def write_split(self, folder: Path, **counts: int) -> dict[str, Path]:
        """Write a file of examples for each name in `counts`, in a folder of that name.

        Return the paths by name.
        """
        paths = {name: folder / name / self.file for name in counts}
        for seed, (name, path) in enumerate(paths.items()):
            path.parent.mkdir(parents=True)
            self.write(path, counts[name], seed)
        return paths


def write_scores(path: Path, count: int, seed: int = 0) -> Path:
    """Write pairs of texts; the score rises with good words and falls with bad words."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        texts = [list(rng.choice(GOOD + BAD + OTHER[:7], rng.integers(2, 9))) for _ in "ab"]
        words = [*texts[0], *texts[1]]
        score = sum(word in GOOD for word in words) - sum(word in BAD for word in words)
        rows.append([*(" ".join(text) for text in texts), 10 + 0.5 * score])
    return write_csv(path, ["text", "text_pair", "label"], *rows)


def write_questions(path: Path, count: int, seed: int = 0) -> Path:
    """Write questions that ask for the good word or for the bad word of a passage."""
    rng = np.random.default_rng(seed)
    articles = []
    for number in range(count):
        quality, words, others = [("good", GOOD, BAD), ("bad", BAD, GOOD)][rng.integers(2)]
        text = list(rng.choice(OTHER[:7], rng.integers(2, 40)))
        answer = str(rng.choice(words))
        for word in (answer, rng.choice(others)):
            text.insert(rng.integers(len(text) + 1), word)
        context = " ".join(text)
        qa = {
            "id": f"q{number}",
            "question": f"the {quality} .",
            "answers": [{"text": answer, "answer_start": context.index(answer)}],
        }
        articles.append({"paragraphs": [{"context": context, "qas": [qa]}]})
    path.write_text(json.dumps({"data": articles}))
    return path


def write_names(path: Path, count: int, seed: int = 0) -> Path:
    """Write sentences in CoNLL columns, where good words are people and bad words places (IOB1)."""
    rng = np.random.default_rng(seed)
    types = {word: type_ for words, type_ in ((GOOD, "PER"), (BAD, "LOC")) for word in words}
    with path.open("w", newline="") as file:
        for _ in range(count):
            for word in rng.choice(GOOD + BAD + OTHER[:7], rng.integers(2, 9)).tolist():
                file.write(f"{word} {'I-' + types[word] if word in types else 'O'}\n")
            file.write("\n")
    return path


def write_choices(path: Path, count: int, seed: int = 0) -> Path:
    """Write prompts with two to four choices; only the right choice has a good word."""
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
    """Write pairs of texts, which are similar if both have a good word or both a bad one."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        kinds = [(GOOD, BAD)[kind] for kind in rng.integers(2, size=2)]
        texts = [f"{rng.choice(OTHER[:7])} {rng.choice(kind)}" for kind in kinds]
        rows.append([*texts, 5.0 if kinds[0] is kinds[1] else 1.0])
    return write_csv(path, ["sentence1", "sentence2", "score"], *rows)


def write_topics(path: Path, count: int, seed: int = 0) -> Path:
    """Write texts whose labels are the words good, bad and fine that they hold, if any."""
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
"""By head: labels of a model, the tag of its pipeline, and a record that its predictor reads."""


def prepare(name: str, folder: Path, train: int, held_out: int, **changes: Any) -> Any:
    """Write a tiny model, `train` examples and `held_out` ones to evaluate on.

    Return the task, and the settings to fine-tune with. `name` is a key of `SAMPLES`.
    """
    sample, task = SAMPLES[name], task_named(name.split()[0])
    settings = {"device": "cpu", "precision": "fp32", **sample.settings, **changes}
    files = sample.write_split(folder / "data", train=train, eval=held_out)
    model = settings.pop("model", None) or save_tiny(folder / "start")
    return task, task.settings(model=model, out=folder / "out", **files, **settings)
