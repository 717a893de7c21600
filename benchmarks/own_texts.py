"""What pre-training on one's own texts is worth when labels are few.

The road of the README, by the command line alone: plain text without labels → vocabulary →
corpus → a quarter of an hour of pre-training → a task with few labels. Beside it stand the same
model without pre-training, and TF-IDF with logistic regression. Every score is on the task's own
development set, mean ± standard deviation over seeds, each of which also takes other labelled rows.
Nothing is chosen by that set: the best step, and for each system its best learning rate or
regularisation of those tried, are chosen by 500 further labelled rows.

    python -m benchmarks.own_texts imdb --work runs/own-texts/imdb

Writes `benchmarks/results/own-texts-<name>.md`.
"""

import argparse
import csv
import json
import lzma
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import DATA, RESULTS, bertsmith, build_corpus, machine, spread, table

RECIPE = "quarter-hour"
VOCAB_SIZE = 8000
LABEL_COUNTS = (2000, 200)
SEEDS = (0, 1, 2)
RATES = (5e-4, 1e-3)
STRENGTHS = (1.0, 10.0, 100.0)
NUM_CHOOSE_BY = 500

Scores = tuple[float, float]
"""Accuracies in percent: on the rows that settings are chosen by, and on those that count."""


@dataclass(frozen=True)
class Road:
    """A text to learn from and a task to learn for."""

    text: str
    task: str
    text_column: str
    pretrain_flags: tuple[str, ...] = ()
    analyzer: str = "word"


ROADS = {
    "imdb": Road("imdb/train.csv.xz", "glue/SST-2", "sentence"),
    "enwiki": Road("enwiki/small.txt", "glue/SST-2", "sentence"),
    # The reviews are longer than a sentence, so rows are too. Chinese has no spaces: single
    # characters and pairs of them are the usual TF-IDF terms.
    "zhwiki": Road("zhwiki/small.txt", "chnsenticorp", "text_a", (
        "--max-length", "128", "--batch-size", "32", "--start-steps", "2000", "--start-length",
        "32",
    ), "char"),
}  # fmt: skip


def main() -> None:
    """Run one road and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("road", choices=ROADS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--work",
        type=Path,
        required=True,
        help="a model in it is taken",
    )
    parser.add_argument("--minutes", type=float, default=15.0)
    args = parser.parse_args()
    road = ROADS[args.road]
    args.work.mkdir(parents=True, exist_ok=True)
    if not (args.work / "model" / "config.json").exists():
        corpus = build_corpus(plain_text(args.data / road.text, args.work), VOCAB_SIZE, args.work)
        bertsmith("pretrain", RECIPE, "--corpus", corpus, "--out", args.work / "model",
                  "--minutes", args.minutes, *road.pretrain_flags)  # fmt: skip
    rows = [row for num_labels in LABEL_COUNTS for row in compare(args, road, num_labels)]
    text = report(args, road, rows)
    (RESULTS / f"own-texts-{args.road}.md").write_text(text, encoding="utf-8")
    print(text)


def plain_text(source: Path, work: Path) -> Path:
    """Return the source itself if it is plain text, else its texts alone, one document each."""
    if source.suffix == ".txt":
        return source
    target = work / "texts.txt"
    with lzma.open(source, "rt", encoding="utf-8", newline="") as file:
        documents = [row["text"].replace("<br />", "\n") for row in csv.DictReader(file)]
    lines = (
        "\n".join(line.strip() for line in text.splitlines() if line.strip()) for text in documents
    )
    target.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return target


def compare(args: argparse.Namespace, road: Road, num_labels: int) -> Iterator[tuple[object, ...]]:
    """Yield a row of the table for each system."""
    header, *rows = (args.data / road.task / "train.tsv").read_text("utf-8").splitlines(True)
    choose_by, dev = args.work / "choose-by.tsv", args.data / road.task / "dev.tsv"
    choose_by.write_text("".join([header, *rows[-NUM_CHOOSE_BY:]]), encoding="utf-8")
    trains = []
    for seed in SEEDS:  # other rows for each seed
        trains.append(args.work / f"train-{num_labels}-{seed}.tsv")
        chosen = rows[seed * num_labels : (seed + 1) * num_labels]
        trains[-1].write_text("".join([header, *chosen]), encoding="utf-8")
    column, out = ("--text-column", road.text_column), args.work / "finetuned"

    def finetune(seed: int, rate: float, *flags: str) -> Scores:
        result = bertsmith(
            "finetune", "classify", "--model", args.work / "model", "--train", trains[seed],
            "--eval", choose_by, *column, "--out", out, "--learning-rate", rate, "--seed", seed,
            "--overwrite", *flags,
        )  # fmt: skip
        scored = bertsmith("evaluate", out, "--data", dev, *column)
        return 100 * result["evaluation"]["accuracy"], 100 * scored["accuracy"]

    def tf_idf(seed: int, strength: float) -> Scores:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        terms = TfidfVectorizer(analyzer=road.analyzer, ngram_range=(1, 2), sublinear_tf=True)
        classifier = make_pipeline(terms, LogisticRegression(C=strength, max_iter=1000))
        train, *scored = (read(path, road.text_column) for path in (trains[seed], choose_by, dev))
        classifier.fit(*train)
        first, second = (100 * float(classifier.score(*part)) for part in scored)
        return first, second

    systems: dict[str, dict[str, list[Scores]]] = {
        name: {
            f"learning rate {rate:g}": [finetune(seed, rate, *flags) for seed in SEEDS]
            for rate in RATES
        }
        for name, flags in (("pre-trained", ()), ("from scratch", ("--from-scratch",)))
    }
    systems["TF-IDF + logistic regression"] = {
        f"C {strength:g}": [tf_idf(seed, strength) for seed in SEEDS] for strength in STRENGTHS
    }
    for name, tried in systems.items():
        best = max(tried, key=lambda setting: statistics.mean(by for by, _ in tried[setting]))
        yield f"{num_labels:,}", name, f"{spread(score for _, score in tried[best])} %", best


def read(path: Path, text_column: str) -> tuple[list[str], list[str]]:
    """Read texts and labels of a tab-separated file in which quotes are plain characters."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[text_column] for row in rows], [row["label"] for row in rows]


def report(args: argparse.Namespace, road: Road, rows: list[tuple[object, ...]]) -> str:
    """Describe the pre-training and the scores in Markdown."""
    run = json.loads((args.work / "model" / "run.json").read_text(encoding="utf-8"))
    summary = run["summary"]
    figures: dict[str, Any] = {
        "steps": summary["steps"],
        "tokens learnt from, repeats counted": summary["real_tokens"],
        "tokens per second": summary["tokens_per_second"],
        "share of time waited for batches": summary["data_wait_fraction"],
        **{
            name.replace("_", " "): value
            for name, value in summary["held_out"].items()
            if name.startswith("held_out")
        },
        "held out unigram entropy (nats)": run["data"]["held_out_unigram_entropy"],
    }
    words = f"{args.road} --minutes {args.minutes:g}"
    lines = [
        f"# Own texts, few labels: {road.text} → {road.task}",
        "",
        f"`python -m benchmarks.own_texts {words} --work DIR`, {time.strftime('%Y-%m-%d')}, "
        f"{machine()}. Rates tried: {RATES}.",
        "",
        f"Vocabulary of {VOCAB_SIZE:,} pieces; pre-training with the recipe `{RECIPE}"
        f"{' '.join(('', *road.pretrain_flags))}`:",
        "",
        *table(
            ("figure", "value"),
            [
                (name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
                for name, value in figures.items()
            ],
        ),
        "",
        f"Accuracy on `{road.task}/dev.tsv`, mean ± standard deviation over {len(SEEDS)} seeds, "
        f"each with other labelled rows; step and setting are chosen by {NUM_CHOOSE_BY} further "
        "rows.",
        "",
        *table(("labels", "system", "accuracy", ""), rows),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
