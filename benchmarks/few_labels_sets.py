"""The labelled sets of the benchmark of few labels, and the samples that are drawn from them."""

import csv
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DATA
from benchmarks.few_labels_names import NAMES, read_sentences

POOL = 20_000
"""Number of training rows from which the samples are drawn."""
MAX_EVAL_TEXTS = 2000
Rows = tuple[list[str], list[str]]


def read_rows(path: Path, text: str, delimiter: str = "\t") -> Rows:
    """Read texts and labels of a table."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        if delimiter == "\t":
            reader = csv.DictReader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        else:
            reader = csv.DictReader(file, delimiter=delimiter)
        rows = list(reader)
    return [row[text] for row in rows], [row["label"] for row in rows]


def read_genres(path: Path) -> Rows:
    """Read the sentences of a CoNLL-U file, each with the genre of its document."""
    lines = path.read_text(encoding="utf-8").splitlines()
    ids = [line.split(" = ", 1)[1] for line in lines if line.startswith("# sent_id = ")]
    texts = [line.split(" = ", 1)[1] for line in lines if line.startswith("# text = ")]
    return texts, [name.partition("-")[0] for name in ids]


def read_questions(path: Path, num_articles: int) -> tuple[Rows, Rows]:
    """Read the questions of SQuAD's longest articles, each with the title of its article.

    The last `MAX_EVAL_TEXTS` of them, in random order, are the eval rows.
    """
    with lzma.open(path, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    questions = {
        article["title"]: [
            each["question"] for part in article["paragraphs"] for each in part["qas"]
        ]
        for article in articles
    }
    longest = sorted(questions, key=lambda title: len(questions[title]))[-num_articles:]
    rows = [(text, title) for title in longest for text in questions[title]]
    texts, labels = shuffled(([text for text, _ in rows], [label for _, label in rows]), len(rows))
    border = max(0, len(texts) - MAX_EVAL_TEXTS)
    return (texts[:border], labels[:border]), (texts[border:], labels[border:])


def read_acceptability(path: Path) -> Rows:
    """Read the sentences of CoLA, whose files have no names of columns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [row[3] for row in rows], [row[1] for row in rows]


def read_sets() -> dict[str, tuple[Any, Any]]:
    """Return training and eval rows by the name of the set."""
    genres, chinese = DATA / "ud_english_ewt", DATA / "chnsenticorp"
    acceptability = DATA / "glue" / "CoLA"
    sets: dict[str, tuple[Any, Any]] = {
        "SST-2": (
            read_rows(DATA / "glue" / "SST-2" / "train.tsv", "sentence"),
            read_rows(DATA / "glue" / "SST-2" / "dev.tsv", "sentence"),
        ),
        "IMDB": (
            read_rows(DATA / "imdb" / "train.csv.xz", "text", ","),
            read_rows(DATA / "imdb" / "test.csv.xz", "text", ","),
        ),
        "five genres": (
            read_genres(genres / "train.conllu"),
            read_genres(genres / "test.conllu"),
        ),
        "ChnSentiCorp": (
            read_rows(chinese / "train.tsv", "text_a"),
            read_rows(chinese / "test.tsv", "text_a"),
        ),
        "six articles": read_questions(DATA / "squad" / "train-v1.1.json.xz", 6),
        "CoLA": (
            read_acceptability(acceptability / "train.tsv"),
            read_acceptability(acceptability / "dev.tsv"),
        ),
    }
    names = DATA / "conll2003"
    sets[NAMES] = read_sentences(names / "eng.train"), read_sentences(names / "eng.testa")
    return {name: (shuffled(train, POOL), shuffled(test, MAX_EVAL_TEXTS))
            for name, (train, test) in sets.items()}  # fmt: skip


def shuffled(rows: tuple[list[Any], list[Any]], most: int) -> tuple[list[Any], list[Any]]:
    """Draw at most `most` rows in random order, always the same ones."""
    order = np.random.default_rng(0).permutation(len(rows[0]))[:most]
    return [rows[0][index] for index in order], [rows[1][index] for index in order]


def draw(rows: Rows, count: int, seed: int) -> Rows:
    """Draw a sample in which every label occurs."""
    rng = np.random.default_rng(seed)
    while True:
        chosen = rng.permutation(len(rows[0]))[:count]
        labels = [rows[1][index] for index in chosen]
        if len(set(labels)) == len(set(rows[1])):
            return [rows[0][index] for index in chosen], labels
