"""What pre-training on one's own texts is worth when labels are few.

The road of the README, by the command line alone: plain text without labels → vocabulary →
corpus → a quarter of an hour of pre-training → a task with few labels. Beside it stand the same
model without pre-training, and TF-IDF with logistic regression. Every score is on the task's own
development set, mean ± standard deviation over seeds, each of which also takes other labelled rows.
Nothing is chosen by that set: the best step, and for each system its best learning rate or
regularisation of those tried, are chosen by 500 further labelled rows.

    python benchmarks/own_texts.py imdb --work runs/own-texts/imdb

Writes `benchmarks/results/own-texts-<name>.md`.
"""

import argparse
import csv
import json
import lzma
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = ROOT.parent / "shared" / "data"
RECIPE = "quarter-hour"
SEEDS = (0, 1, 2)
STRENGTHS = (1.0, 10.0, 100.0)
CHOOSE_BY = "choose-by.tsv"
NUM_CHOOSE_BY = 500


@dataclass(frozen=True)
class Score:
    """Accuracies in percent: on the rows that settings are chosen by, and on those that count."""

    chosen_by: float
    dev: float


@dataclass(frozen=True)
class Road:
    """A text to learn from and a task to learn for."""

    text: str
    train: str
    dev: str
    text_column: str
    vocab_size: int
    label_counts: tuple[int, ...]
    pretrain_flags: tuple[str, ...] = ()
    analyzer: str = "word"


SST2 = ("glue/SST-2/train.tsv", "glue/SST-2/dev.tsv", "sentence")
CHN = ("chnsenticorp/train.tsv", "chnsenticorp/dev.tsv", "text_a")
ZHWIKI_FLAGS = ("--max-length", "128", "--batch-size", "32", "--start-steps", "2000",
                "--start-length", "32")  # fmt: skip

ROADS = {
    "imdb": Road("imdb/train.csv.xz", *SST2, 8000, (2000, 200)),
    "enwiki": Road("enwiki/small.txt", *SST2, 8000, (2000, 200)),
    # The reviews are longer than a sentence, so rows are too. Chinese has no spaces: single
    # characters and pairs of them are the usual TF-IDF terms.
    "zhwiki": Road(
        "zhwiki/small.txt",
        *CHN,
        8000,
        (2000, 200),
        pretrain_flags=ZHWIKI_FLAGS,
        analyzer="char",
    ),
}


def main() -> None:
    """Run one road and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("road", choices=ROADS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[5e-4, 1e-3])
    parser.add_argument("--threads", type=int, help="of each process; all cores if not given")
    parser.add_argument("--reuse", action="store_true", help="take the model already in --work")
    args = parser.parse_args()
    road = ROADS[args.road]
    args.work.mkdir(parents=True, exist_ok=True)
    if args.threads:
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
    model = args.work / "model"
    if not args.reuse:
        prepare(args, road)
    scores = [
        (num_labels, *row)
        for num_labels in road.label_counts
        for row in compare(args, road, model, num_labels)
    ]
    report(args, road, scores)


def prepare(args: argparse.Namespace, road: Road) -> None:
    """Vocabulary, corpus and pre-trained model, in `args.work`."""
    text = plain_text(args.data / road.text, args.work)
    tokenizer, corpus, model = (args.work / name for name in ("tokenizer", "corpus", "model"))
    bertsmith("tokenizer", "train", text, "--vocab-size", road.vocab_size, "--out", tokenizer)
    bertsmith("corpus", "build", text, "--tokenizer", tokenizer, "--out", corpus)
    bertsmith("pretrain", RECIPE, "--corpus", corpus, "--out", model,
              "--minutes", args.minutes, *road.pretrain_flags)  # fmt: skip


def plain_text(source: Path, work: Path) -> Path:
    """The source itself if it is plain text, else its texts alone, one document each."""
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


def bertsmith(*words: object) -> dict[str, object]:
    """Run a command with --json and give what it printed; its progress goes to our stderr."""
    may_write = [] if words[0] == "evaluate" else ["--overwrite"]
    command = [sys.executable, "-m", "bertsmith", *map(str, words), "--json", *may_write]
    print("$", "bertsmith", *command[3:], file=sys.stderr, flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def compare(
    args: argparse.Namespace, road: Road, model: Path, num_labels: int
) -> Iterator[tuple[str, list[float], str]]:
    """Name, scores by seed and note of each system."""
    samples = [sample(args, road, num_labels, seed) for seed in SEEDS]
    for name, flags in (("pre-trained", ()), ("from scratch", ("--from-scratch",))):
        yield (
            name,
            *best(
                {
                    f"learning rate {rate:g}": [
                        finetune(args, road, model, train, rate, seed, flags)
                        for seed, train in enumerate(samples)
                    ]
                    for rate in args.learning_rates
                }
            ),
        )
    yield (
        "TF-IDF + logistic regression",
        *best(
            {
                f"C {strength:g}": [tf_idf(args, road, train, strength) for train in samples]
                for strength in STRENGTHS
            }
        ),
    )


def best(tried: dict[str, list[Score]]) -> tuple[list[float], str]:
    """Scores that count of the setting with the best mean on the rows to choose by; its name."""
    name = max(tried, key=lambda name: statistics.mean(score.chosen_by for score in tried[name]))
    return [score.dev for score in tried[name]], name


def sample(args: argparse.Namespace, road: Road, num_labels: int, seed: int) -> Path:
    """A file of `num_labels` labelled rows, others for each seed, and never those to choose by."""
    header, *rows = (args.data / road.train).read_text(encoding="utf-8").splitlines(keepends=True)
    (args.work / CHOOSE_BY).write_text("".join([header, *rows[-NUM_CHOOSE_BY:]]), encoding="utf-8")
    path = args.work / f"train-{num_labels}-{seed}.tsv"
    chosen = rows[seed * num_labels : (seed + 1) * num_labels]
    path.write_text("".join([header, *chosen]), encoding="utf-8")
    return path


def finetune(
    args: argparse.Namespace,
    road: Road,
    model: Path,
    train: Path,
    rate: float,
    seed: int,
    flags: Iterable[str],
) -> Score:
    """Accuracies after fine-tuning, in percent."""
    out = args.work / "finetuned"
    result = bertsmith(
        "finetune", "classify", "--model", model, "--train", train,
        "--eval", args.work / CHOOSE_BY, "--text-column", road.text_column, "--out", out,
        "--learning-rate", rate, "--seed", seed, *flags,
    )  # fmt: skip
    dev = bertsmith("evaluate", out, "--data", args.data / road.dev,
                    "--text-column", road.text_column)  # fmt: skip
    return Score(100 * float(result["evaluation"]["accuracy"]), 100 * float(dev["accuracy"]))


def tf_idf(args: argparse.Namespace, road: Road, train: Path, strength: float) -> Score:
    """Accuracies of logistic regression over TF-IDF of terms and pairs of terms, in percent."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    terms = TfidfVectorizer(analyzer=road.analyzer, ngram_range=(1, 2), sublinear_tf=True)
    classifier = make_pipeline(terms, LogisticRegression(C=strength, max_iter=1000))
    classifier.fit(*read(train, road.text_column))
    scores = [
        100 * float(classifier.score(*read(path, road.text_column)))
        for path in (args.work / CHOOSE_BY, args.data / road.dev)
    ]
    return Score(*scores)


def read(path: Path, text_column: str) -> tuple[list[str], list[str]]:
    """Texts and labels of a tab-separated file in which quotes are plain characters."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[text_column] for row in rows], [row["label"] for row in rows]


def report(
    args: argparse.Namespace, road: Road, scores: list[tuple[int, str, list[float], str]]
) -> None:
    """Write the table and print it."""
    import torch

    run = json.loads((args.work / "model" / "run.json").read_text(encoding="utf-8"))
    summary = run["summary"]
    figures = {
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
    lines = [
        f"# Own texts, few labels: {road.text} → {road.train}",
        "",
        f"`python benchmarks/own_texts.py {args.road} --work DIR --minutes {args.minutes:g}"
        f"{f' --threads {args.threads}' if args.threads else ''} --learning-rates "
        f"{' '.join(f'{rate:g}' for rate in args.learning_rates)}`, "
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, "
        f"{args.threads or torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}.",
        "",
        f"Vocabulary of {road.vocab_size:,} pieces; pre-training with the recipe `{RECIPE}"
        f"{' '.join(('', *road.pretrain_flags))}`:",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name} | {show(value)} |" for name, value in figures.items()),
        "",
        f"Accuracy on `{road.dev}`, mean ± standard deviation over {len(SEEDS)} seeds, each with "
        f"other labelled rows; step and setting are chosen by {NUM_CHOOSE_BY} further rows.",
        "",
        "| labels | system | accuracy | |",
        "|---|---|---|---|",
        *(f"| {n:,} | {name} | {mean_sd(values)} | {note} |" for n, name, values, note in scores),
        "",
    ]
    target = HERE / "results" / f"own-texts-{args.road}.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def show(value: object) -> str:
    """A figure, short."""
    return f"{value:,.4g}" if isinstance(value, float) and value < 1000 else f"{value:,.0f}"  # type: ignore[str-format]


def mean_sd(values: list[float]) -> str:
    """`72.1 ± 0.4 %`, or without a deviation where there is one value."""
    if len(values) == 1:
        return f"{values[0]:.1f} %"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f} %"


if __name__ == "__main__":
    main()
