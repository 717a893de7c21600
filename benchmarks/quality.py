"""What a recipe is worth after some minutes: one run, and a table of all runs.

A run learns a vocabulary, and pre-trains a model on one of the texts. The model is scored by bits
per character and masked words of held-out text, by tasks with few labels, and without labels (STS-B
by the cosine of mean vectors; BLiMP). `--from-scratch` scores the same model without pre-training,
`--tf-idf` TF-IDF of words. The page of a run's curves lies beside its model.

    python -m benchmarks.quality plain --text imdb --minutes 3 --work DIR
    python -m benchmarks.quality adamw --text imdb --minutes 3 --work DIR --flags --optimizer adamw
    python -m benchmarks.quality plain --work DIR --tasks "SST-2 50" "SST-2 100"
    python -m benchmarks.quality --table
    python -m benchmarks.quality --figure docs/worth.svg

`--tasks` adds scores to a run: the figure of when pre-training pays has SST-2 with several
numbers of labels. Nothing is chosen by the development sets of the scores: the best step of a
fine-tuning is chosen by rows of the training set that are not trained on. Each seed takes other
labelled rows. A run adds itself to `benchmarks/results/quality.json`; the table is `quality.md`
beside it.
"""

import argparse
import csv
import json
import lzma
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import (
    DATA,
    RESULTS,
    bertsmith,
    build_corpus,
    load,
    machine,
    save,
    spread,
    table,
)
from bertsmith.metrics.regression import spearman
from bertsmith.pages.charts import Chart, Point, Series, format_tick, write_svg
from bertsmith.pages.colors import COLORS
from bertsmith.tasks.tfidf import build_tfidf

RATE = 1e-3
"""Learning rate of fine-tuning: the better of 5e-4 and 1e-3 for BERT-tiny in every earlier run."""
NUM_CHOOSE_BY = 500
BLIMP = "blimp/blimp.jsonl.xz"
"""Minimal pairs, of which 100 of each paradigm are scored."""
NO_LABELS = "STS-B, no labels"
TARGET = RESULTS / "quality.json"


@dataclass(frozen=True)
class Task:
    """A task with `limit` labelled examples, or all of them."""

    command: str
    train: str
    eval: str
    metric: str
    limit: int | None = None
    flags: tuple[str, ...] = ()
    has_heading: bool = True
    """Whether a file begins with a heading."""
    between: str = "\n"
    """Separator of examples."""
    finetune_flags: tuple[str, ...] = ()


def glue(
    name: str, metric: str, *flags: str, command: str = "classify", limit: int | None = None
) -> Task:
    """Build a task of GLUE."""
    files = (f"glue/{name}/{part}.tsv" for part in ("train", "dev"))
    return Task(command, *files, metric, limit, flags)


def reviews(limit: int) -> Task:
    """Build the task of Chinese reviews."""
    files = (f"chnsenticorp/{part}.tsv" for part in ("train", "dev"))
    return Task("classify", *files, "accuracy", limit, ("--text-column", "text_a"))


POSITIVE_F1 = "F1 of the last class"
"""GLUE's F1 of MRPC."""
PAIR = ("--text-column", "sentence1", "--pair-column", "sentence2")
PARAPHRASES = (
    "--text-column", "#1 String", "--pair-column", "#2 String", "--label-column", "Quality"
)  # fmt: skip
LABELS = (50, 100, 200, 500, 1000, 2000, 5000, 20_000)
TASKS = {
    **{
        f"SST-2 {labels}": glue("SST-2", "accuracy", "--text-column", "sentence", limit=labels)
        for labels in LABELS
    },
    "SST-2 all": glue("SST-2", "accuracy", "--text-column", "sentence"),
    "CoNLL 1000": Task(
        "tag", "conll2003/eng.train", "conll2003/eng.testa", "f1", 1000, (), False, "\n\n"
    ),
    "MRPC": glue("MRPC", "accuracy", *PARAPHRASES),
    "MRPC, F1": glue("MRPC", POSITIVE_F1, *PARAPHRASES),
    "RTE": glue("RTE", "accuracy", *PAIR),
    "STS-B": glue("STS-B", "spearman", *PAIR, "--label-column", "score", command="regress"),
    "STS-B, vectors": glue("STS-B", "spearman", *PAIR, "--label-column", "score", command="embed"),
    "MRPC, vectors": glue("MRPC", "accuracy", *PARAPHRASES, command="embed"),
    "MRPC, vectors, F1": glue("MRPC", "f1", *PARAPHRASES, command="embed"),
    "CoLA": Task(
        "classify", "glue/CoLA/train.tsv", "glue/CoLA/dev.tsv", "matthews_correlation", None,
        ("--text-column", "4", "--label-column", "2", "--header", "no"), False,
        # Of the sentences 70 % are acceptable. On rows of the training set, weights are better.
        finetune_flags=("--class-weights", "balanced"),
    ),
    "ChnSentiCorp 2000": reviews(2000),
    "ChnSentiCorp 200": reviews(200),
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A text to pre-train on, and what it should be good for."""

    sources: tuple[str, ...]
    tasks: tuple[str, ...]
    flags: tuple[str, ...] = ()
    analyzer: str = "word"
    vocab_size: int = 8000
    kind: str = "wordpiece"
    limit: int | None = None
    """Number of reviews; all where None."""


REVIEWS, FEW_LABELS = ("imdb/train.csv.xz",), ("SST-2 2000", "SST-2 200")
CHINESE = ("ChnSentiCorp 2000", "ChnSentiCorp 200")
LONG_ROWS = ("--max-length", "128", "--batch-size", "32")
TEXTS = {
    "imdb": Text(REVIEWS, FEW_LABELS),
    "imdb-1000": Text(REVIEWS, FEW_LABELS, limit=1000),
    "imdb-5000": Text(REVIEWS, FEW_LABELS, limit=5000),
    "enwiki": Text(
        ("enwiki/train-00.txt.xz", "enwiki/train-01.txt.xz"),
        (
            "SST-2 2000", "CoNLL 1000", "MRPC", "MRPC, vectors", "RTE", "STS-B", "STS-B, vectors",
            "CoLA",
        ),
    ),
    "enwiki-all": Text(
        tuple(f"enwiki/train-{part:02}.txt.xz" for part in range(8)),
        (
            "RTE", "STS-B", "STS-B, vectors", "CoLA", "MRPC, F1", "MRPC, vectors, F1", "SST-2 all",
        ),
    ),
    # The reviews of the tasks are longer than a sentence, so rows are longer, too. Chinese has no
    # spaces: single characters and pairs of them are the usual TF-IDF terms.
    "zhwiki": Text(
        ("zhwiki/train.txt.xz",), CHINESE, LONG_ROWS, "char", vocab_size=12_000
    ),
    "zhwiki-bpe": Text(
        ("zhwiki/train.txt.xz",), CHINESE, (*LONG_ROWS, "--family", "roberta"), "char",
        vocab_size=24_000, kind="byte-bpe",
    ),
}  # fmt: skip


def main() -> None:
    """Do one run for each seed, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="?", help="what the run is called in the table")
    parser.add_argument("--recipe", default="quarter-hour")
    parser.add_argument("--text", choices=TEXTS, default="imdb")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=15.0)
    length.add_argument("--steps", type=int)
    length.add_argument("--from-scratch", action="store_true")
    length.add_argument("--tf-idf", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--work", type=Path, help="models and corpora go here; a model in it is taken"
    )
    parser.add_argument(
        "--tasks", nargs="+", choices=TASKS, metavar="TASK", help="score these alone"
    )
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figure", type=Path)
    parser.add_argument(
        "--flags", nargs=argparse.REMAINDER, default=[], help="the last: flags of pretrain"
    )
    args = parser.parse_args()
    if args.table:
        TARGET.with_suffix(".md").write_text(page(load(TARGET)), encoding="utf-8")
        return
    if args.figure:
        draw_worth(load(TARGET), args.figure)
        return
    if args.name is None or args.work is None:
        parser.error("give a name and --work DIR, --table or --figure FILE")
    for seed in args.seeds:
        run = one_run(args, seed)
        everything, key = load(TARGET), f"{args.text}/{args.name}/{seed}"
        earlier = everything.get(key, {}) if args.tasks else {}
        everything[key] = {
            **earlier,
            **run,
            "scores": {**earlier.get("scores", {}), **run["scores"]},
        }
        save(everything, TARGET, page)
        print(json.dumps(run, indent=1))


def one_run(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Pre-train a model if the options ask for that, and score it."""
    text = TEXTS[args.text]
    if args.tasks:
        text = replace(text, tasks=args.tasks)
    corpus = corpus_of(args.text, args.data, args.work)
    if args.tf_idf:
        of_words = {name: tf_idf(TASKS[name], text, seed, args) for name in text.tasks
                 if TASKS[name].command == "classify" and TASKS[name].limit}  # fmt: skip
        return {"machine": machine(), "scores": of_words}
    model = args.work / f"{args.text}-{args.name}-{seed}"
    facts = pretrain(args, seed, corpus, model)
    if args.from_scratch:  # the step taken was for the shape alone
        facts = {"flags": "--from-scratch"}
    scores = {}
    for name in text.tasks:
        scores[name] = score(TASKS[name], model, seed, args)
        print(f"{name}: {scores[name]:.1f}", flush=True)
    if text.analyzer == "word" and not args.from_scratch and not args.tasks:
        scores[NO_LABELS] = likeness(model, args)
        pairs = bertsmith("evaluate", model, "--minimal-pairs", args.data / BLIMP, "--limit", 100)
        scores["BLiMP"] = 100 * pairs["mean_over_paradigms"]
    return {"machine": machine(), "date": time.strftime("%Y-%m-%d"), **facts, "scores": scores}


def corpus_of(name: str, data: Path, work: Path) -> Path:
    """Return the corpus of a text in the work folder; built if it is not there."""
    folder = work / name
    if (folder / "corpus").exists():
        return folder / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    text = TEXTS[name]
    source = plain_text([data / source for source in text.sources], folder, text.limit)
    return build_corpus(source, text.vocab_size, folder, "--kind", text.kind)


def plain_text(sources: list[Path], work: Path, limit: int | None) -> Path:
    """Write the texts of all sources to one file of plain text."""
    target = work / "texts.txt"
    with target.open("w", encoding="utf-8") as file:
        for source in sources:
            if ".csv" in source.suffixes:
                file.writelines(islice(review_texts(source), limit))
            else:
                file.write(lzma.decompress(source.read_bytes()).decode("utf-8").strip() + "\n\n")
    return target


def review_texts(source: Path) -> Iterator[str]:
    """Yield each text of a table of reviews, as a document that ends with an empty line."""
    with lzma.open(source, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            lines = row["text"].replace("<br />", "\n").splitlines()
            yield "\n".join(line.strip() for line in lines if line.strip()) + "\n\n"


def pretrain(args: argparse.Namespace, seed: int, corpus: Path, model: Path) -> dict[str, Any]:
    """Pre-train a model, if it is not in the work folder, and return what it learned."""
    length = run_length(args)
    if not (model / "config.json").exists():
        bertsmith("pretrain", *pretrain_flags(args), "--corpus", corpus, "--out", model, "--seed",
                  seed, "--page", f"{model}.html", "--overwrite")  # fmt: skip
    summary = json.loads((model / "run.json").read_text("utf-8"))["summary"]
    split = json.loads((corpus / "manifest.json").read_text("utf-8"))["splits"]["held_out"]
    held_out = summary["held_out"]
    bits = held_out["held_out_mlm_loss"] / math.log(2) * split["tokens"] / split["characters"]
    names = ("steps", "real_tokens", "tokens_per_second", "elapsed_seconds")
    return {
        "flags": " ".join(map(str, [args.recipe, *length, *args.flags])),
        **{name: summary[name] for name in names},
        "bits per character": bits,
        **{name: value for name, value in held_out.items() if name.startswith("held_out_")},
    }


def run_length(args: argparse.Namespace) -> tuple[str, Any]:
    """Return the flag that says how long a run is; a model with random weights takes one step."""
    if args.from_scratch:
        return "--steps", 1
    return ("--minutes", args.minutes) if args.steps is None else ("--steps", args.steps)


def pretrain_flags(args: argparse.Namespace) -> list[Any]:
    """Return the flags of a run, without its corpus, folder and seed."""
    return ["--recipe", args.recipe, *run_length(args), *TEXTS[args.text].flags, *args.flags]


def divided(task: Task, seed: int, args: argparse.Namespace) -> tuple[Path, Path]:
    """Write the examples that a seed learns from, and those that its best step is chosen by."""
    text = (args.data / task.train).read_text("utf-8").strip("\n")
    heading, examples = [], text.split(task.between)
    if task.has_heading:
        heading, examples = examples[:1], examples[1:]
    limit = task.limit or len(examples) - NUM_CHOOSE_BY
    first = seed * limit if task.limit else 0
    chosen = {"train": examples[first : first + limit], "choose-by": examples[-NUM_CHOOSE_BY:]}
    if first + limit > len(examples) - NUM_CHOOSE_BY:
        raise SystemExit(f"{task.train}: too short for seed {seed}")
    targets = []
    for name, part in chosen.items():
        targets.append(args.work / f"{name}-{seed}{Path(task.train).suffix}")
        targets[-1].write_text(task.between.join([*heading, *part]) + "\n", encoding="utf-8")
    return targets[0], targets[1]


def score(task: Task, model: Path, seed: int, args: argparse.Namespace) -> float:
    """Fine-tune the model and evaluate it; return the score times 100."""
    train, choose_by = divided(task, seed, args)
    out = args.work / "finetuned"
    # Only `finetune classify` can be told by which metric it chooses its best step, and not by F1.
    can_choose_by_metric = task.command == "classify" and task.metric != POSITIVE_F1
    bertsmith("finetune", task.command, "--model", model, "--train", train, "--eval", choose_by,
              *task.flags, *task.finetune_flags, "--out", out, "--learning-rate", RATE,
              "--seed", seed, "--overwrite",
              *(["--metric", task.metric] if can_choose_by_metric else []),
              *(["--from-scratch"] if args.from_scratch else []))  # fmt: skip
    scored = bertsmith("evaluate", out, "--data", args.data / task.eval, *task.flags)
    if task.metric == POSITIVE_F1:
        return 100 * float(scored["classes"][-1]["f1"])
    return 100 * float(scored[task.metric])


def tf_idf(task: Task, text: Text, seed: int, args: argparse.Namespace) -> float:
    """Score logistic regression on TF-IDF of words and pairs of words."""
    classifier = build_tfidf(by_character=text.analyzer == "char")
    column = task.flags[task.flags.index("--text-column") + 1]
    train, evaluated = divided(task, seed, args)[0], args.data / task.eval
    classifier.fit(column_of(train, column), column_of(train, "label"))
    accuracy = classifier.score(column_of(evaluated, column), column_of(evaluated, "label"))
    return 100 * float(accuracy)


def column_of(path: Path, name: str) -> list[str]:
    """Read a column of a tab-separated file in which quotes are plain characters."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row[name] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def likeness(model: Path, args: argparse.Namespace) -> float:
    """Compare the cosines of mean vectors with the scores of STS-B: Spearman times 100."""
    source, vectors = args.data / "glue/STS-B/dev.tsv", []
    for column in ("sentence1", "sentence2"):
        target = args.work / f"{column}.npy"
        target.unlink(missing_ok=True)
        bertsmith("embed", model, source, "--text-column", column, "--pooling", "mean",
                  "--normalize", "--out", target)  # fmt: skip
        vectors.append(np.load(target))
    scores = np.array([float(score) for score in column_of(source, "score")])
    return 100 * spearman(np.einsum("ij,ij->i", *vectors), scores)


def page(results: dict[str, Any]) -> str:
    """Format all runs: a table for each text, a row for each name, means over seeds."""
    lines = ["# What recipes are worth", "", f"{(__doc__ or '').partition('.')[0]}.", ""]
    for text, facts in TEXTS.items():
        runs: dict[str, list[dict[str, Any]]] = {}
        for key, run in results.items():
            if key.startswith(f"{text}/"):
                runs.setdefault(key.split("/")[1], []).append(run)
        if runs:
            lines += [
                f"## {text}: {' to '.join(dict.fromkeys((facts.sources[0], facts.sources[-1])))}",
                "",
                *table_of(runs),
                "",
            ]
            machines = dict.fromkeys(run["machine"] for each in runs.values() for run in each)
            lines += [f"Machine: {'; '.join(machines)}.", ""]
    return "\n".join(lines)


def table_of(runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Format the runs of one text by their names."""
    measured = {name for each in runs.values() for run in each for name in run["scores"]}
    scores = sorted(measured, key=[*TASKS, NO_LABELS, "BLiMP"].index)
    rows = []
    for name, each in runs.items():
        words = [100 * run["held_out_mlm_accuracy"] for run in each if "steps" in run]
        cells = [
            spread(run["real_tokens"] / 1e6 for run in each if "steps" in run),
            spread((run["bits per character"] for run in each if "steps" in run), 3),
            spread(words),
            *(
                spread(run["scores"][task] for run in each if task in run["scores"])
                for task in scores
            ),
        ]
        rows.append((name, len(each), *cells, each[0].get("flags", "")))
    heading = ("run", "seeds", "M tokens", "bits/char", "masked words right", *scores, "flags")
    return table(heading, rows)


def draw_worth(results: dict[str, Any], target: Path) -> None:
    """Draw accuracy on SST-2 over minutes of pre-training, and over the number of labels."""
    minutes = {15: "quarter-hour"}
    for key in results:
        if key.startswith("imdb/minutes-"):
            name = key.split("/")[1]
            minutes[int(name.removeprefix("minutes-"))] = name
    runs = [minutes[each] for each in sorted(minutes)]
    series: list[Series] = []
    for labels, color in ((2000, COLORS[0]), (200, COLORS[1])):
        words = scores_of(results, "tf-idf")[f"SST-2 {labels}"]
        scores = [scores_of(results, run).get(f"SST-2 {labels}", []) for run in runs]
        series += [
            Series(f"{labels:,} labels", curve(scores), "dots", color),
            Series(f"TF-IDF, {labels:,}", curve([words]), "reference", color),
        ]
    title = "Accuracy on SST-2 by minutes of pre-training"
    names = [str(each) for each in sorted(minutes)]
    by_minutes = Chart(
        title, "minutes", "", series, is_share=True, low=0.5, high=0.9, x_names=names
    )
    rows = {
        "quarter-hour": "pre-trained for 15 minutes",
        "tf-idf": "TF-IDF",
        "scratch": "from scratch",
    }
    series = [
        Series(text, curve([scores_of(results, name).get(f"SST-2 {each}", []) for each in LABELS]),
               "dots", color)
        for (name, text), color in zip(rows.items(), COLORS, strict=False)
    ]  # fmt: skip
    names = [format_tick(each) for each in LABELS]
    title = "Accuracy on SST-2 by number of labels"
    by_labels = Chart(title, "labels", "", series, is_share=True, low=0.5, high=0.9, x_names=names)
    write_svg(target, [by_minutes, by_labels])


def curve(scores: Sequence[Sequence[float]]) -> list[Point]:
    """Turn scores over seeds into points of their means, where there are any."""
    return [(place, float(np.mean(each)) / 100) for place, each in enumerate(scores) if each]


def scores_of(results: dict[str, Any], name: str) -> dict[str, list[float]]:
    """Collect the scores of a run on the reviews over its seeds, by task."""
    scores: dict[str, list[float]] = {}
    for key, run in results.items():
        if key.startswith(f"imdb/{name}/"):
            for task, score_ in run["scores"].items():
                scores.setdefault(task, []).append(score_)
    return scores


if __name__ == "__main__":
    main()
