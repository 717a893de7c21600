"""All steps of the demo in one call, from the documentation on this computer to a report.

The demo trains with the public interface, `pretrain` and `TextClassifier`. Each part gets a share
of the minutes, so that a slow computer reads less and trains less, and the demo still ends in time.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.csv_lines import csv_line
from bertsmith.data.examples import Example
from bertsmith.data.settings import CorpusSettings
from bertsmith.demo.corpus import ModuleText, installed_libraries, read_documentation
from bertsmith.demo.folder import COMMAND, RESULT, TEXT, fresh_folder
from bertsmith.demo.page import FINETUNE_STEPS, METHODS, PRETRAINED, UNTRAINED, write_demo_page
from bertsmith.demo.question import LABELS, build_question, draw_examples, split_modules
from bertsmith.demo.settings import DemoSettings
from bertsmith.errors import Interrupted
from bertsmith.estimators.pretrain import pretrain
from bertsmith.estimators.texts import TextClassifier
from bertsmith.metrics.class_report import ClassReport
from bertsmith.metrics.spread import spread
from bertsmith.model.loading import load_model
from bertsmith.system.files import atomic_write, write_json
from bertsmith.system.memory import peak_bytes
from bertsmith.system.terminal import Say
from bertsmith.tasks.baseline import most_frequent
from bertsmith.tasks.class_baselines import ClassBaselines
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.tfidf import score_tfidf
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.training.callback import Callback, Status
from bertsmith.training.run_folder import RunFolder
from bertsmith.vocabulary.settings import TokenizerSettings
from bertsmith.vocabulary.train import write_tokenizer

READING_SHARE = 0.08
"""Share of the time in which modules are read."""
ENDING_SHARE = 0.3
"""Share of the time for all parts after pre-training, at most."""
ENDING_FACTOR = 5.0
"""Time for all parts after pre-training, at most, as a multiple of the time that learning the
vocabulary took. A fast computer needs a smaller share of the time for them, and pre-trains longer.
"""
PAGE_SHARE = 0.03
"""Share of the time for examples and the page."""
COUNTING_FACTOR = 0.5
"""Time in which `pretrain` counts tokens for the first word embeddings, as a multiple of the time
that learning the vocabulary took. The `minutes` of `pretrain` do not include it."""
STARTING_SECONDS = 5.0
"""Seconds for importing the program, which have passed before the demo begins to measure time."""
MIN_PRETRAINING_SECONDS = 20.0
"""Minimum number of seconds of pre-training, even if no time is left for it."""
TRAINING_SHARE = 0.5
"""Share of the time of a fine-tuning after which training ends; the rest is for scoring."""

MAX_VOCABULARY, MIN_VOCABULARY = 8000, 1000
CHARS_PER_TOKEN = 200
"""Number of characters of text for each token of the vocabulary; less text gets fewer tokens."""
HELD_OUT_SHARE = 0.02
"""Share of the documents on which vocabulary and pre-training are measured, not trained."""
NUM_TRAIN, NUM_DEV = 25, 10
"""Numbers of labelled paragraphs of each library: for training, and to choose the best weights."""
NUM_DRAWS = 3
"""Number of random choices of labelled paragraphs. The scores are averaged over these choices."""
FINETUNE_LEARNING_RATE = 5e-4
MAX_TEST, TEST_PER_MINUTE = 150, 30
"""Maximum number of paragraphs of each library to score on: in all, and for each minute of the
demo."""
NUM_PARTS = 7
"""Number of parts that the demo announces, each as "[1 of 7]"."""

SEGMENTED = ("The tokenizer reads documentation.", "An unsymmetrical eigendecomposition.")
"""Texts whose tokens the page shows."""
FILLS = (
    "The default [MASK] is None.",
    "Raises an error if the file does not [MASK].",
    "Return the [MASK] of the elements along the given axis.",
    "If True, return a [MASK] of the array.",
    "The number of [MASK] in the graph.",
    "Set the [MASK] of the line.",
)
"""Texts in which the pre-trained model fills the mask."""


class Timer:
    """Timer of the demo: `seconds` that each part took, and the seconds that are `left`."""

    def __init__(self, total: float, say: Say) -> None:
        self.seconds: dict[str, float] = {}
        self.total = total
        self.say = say
        self._ends_at = time.monotonic() + total

    @contextmanager
    def part(self, name: str, words: str) -> Iterator[None]:
        """Announce the block in `words`, and add its time to `seconds` under `name`."""
        self.say(f"[{len(self.seconds) + 1} of {NUM_PARTS}] {words} {self._describe_left()}")
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began

    @property
    def left(self) -> float:
        return self._ends_at - time.monotonic()

    def _describe_left(self) -> str:
        minutes = self.left / 60
        return f"{minutes:.1f} minutes left." if minutes >= 1 else "Less than a minute left."


class EndAfter(Callback):
    """Callback that ends a training some seconds after the callback was created.

    `on_step`, which training calls after each step, returns whether to end.
    """

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def on_step(self, entry: Mapping[str, Any], status: Status) -> bool:
        return time.monotonic() >= self._ends_at


def run_demo(
    settings: DemoSettings,
    *,
    say: Say = lambda line: None,
    callbacks: Sequence[Callback] = (),
    libraries: Mapping[str, Path] | None = None,
) -> dict[str, Any]:
    """Run all steps and return the figures that `demo.json` and the report hold.

    Args:
        say: prints a line about each part of the work.
        callbacks: objects that receive each entry of the journals of all trainings; a journal has
            an entry for each step and each evaluation.
        libraries: by name, the folder of each library to read; by default those of this Python.

    Raises:
        ConfigError: `out` holds something other than a demo.
        InputError: too little documentation is installed, or the disk is full.
        KeyboardInterrupt: Ctrl-C was pressed; an earlier demo at `out` is restored.
    """
    with fresh_folder(settings.out):
        timer = Timer(60 * settings.minutes - STARTING_SECONDS, say)
        folders = installed_libraries() if libraries is None else libraries
        try:
            results = _run(settings, timer, callbacks, folders)
        except Interrupted:  # its message names a checkpoint, but the demo keeps none
            raise KeyboardInterrupt from None
        write_json(settings.out / RESULT, results)
    return results


def _run(
    settings: DemoSettings,
    timer: Timer,
    callbacks: Sequence[Callback],
    libraries: Mapping[str, Path],
) -> dict[str, Any]:
    """Do the parts of the demo one after another, write the page, and return the results."""
    out = settings.out
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with timer.part("reading", "Reading the documentation of the installed packages."):
        documentation = read_documentation(libraries, [*LABELS], READING_SHARE * timer.total)
        train_modules, test_modules = split_modules(documentation.documents)
        train_paragraphs, test_paragraphs = build_question(train_modules, test_modules)
        draws = [
            draw_examples(train_paragraphs, (NUM_DEV, NUM_TRAIN), seed) for seed in range(NUM_DRAWS)
        ]
        num_test = min(MAX_TEST, math.ceil(TEST_PER_MINUTE * settings.minutes))
        (test,) = draw_examples(test_paragraphs, (num_test,))
        dev, train = draws[0]
        write_texts(out, train_modules, train=train, dev=dev, test=test)
    with timer.part("baselines", "Scoring two simple methods on a question about it."):
        tfidf = score_tfidf(train, test)
        if tfidf is None:
            timer.say(
                "scikit-learn is not installed, so TF-IDF with logistic regression is left out "
                "(pip install 'bertsmith[demo]' adds it)."
            )
        train_labels, test_labels = (
            Counter(separate_labels(examples)[1]) for examples in (train, test)
        )
        # This baseline needs no task.
        majority = ClassBaselines().score_constant(
            task=None, answer=most_frequent(train_labels), gold=test_labels
        )
    affordable_size = documentation.num_chars // CHARS_PER_TOKEN
    vocab_size = min(MAX_VOCABULARY, max(MIN_VOCABULARY, affordable_size))
    with timer.part("vocabulary", f"Learning a vocabulary of {vocab_size:,} tokens."):
        vocabulary = learn_vocabulary(out, vocab_size)
    with timer.part("corpus", "Turning the text into a corpus of token ids."):
        tokenizer = load_tokenizer(out / "tokenizer")
        corpus_settings = CorpusSettings(held_out=HELD_OUT_SHARE)
        manifest = build_corpus([out / TEXT], tokenizer, out / "corpus", corpus_settings)
    announcement = "Pre-training: guessing hidden words, and whether one passage follows another."
    with timer.part("pre-training", announcement):
        vocabulary_seconds = timer.seconds["vocabulary"]
        ending_seconds = min(ENDING_SHARE * timer.total, ENDING_FACTOR * vocabulary_seconds)
        seconds = timer.left - ending_seconds - COUNTING_FACTOR * vocabulary_seconds
        model = pretrain(
            corpus=out / "corpus",
            out=out / "pretrained",
            recipe="quarter-hour",
            minutes=max(MIN_PRETRAINING_SECONDS, seconds) / 60,
            pairs="next_sentence",  # the page explains this objective
            start_share=1 / 6,  # of the run, with short rows
            learning_rate=6e-3,  # higher, as there are fewer steps than in the recipe
            keep=0,  # no checkpoints: a stopped demo begins anew
            show_progress=False,
            callbacks=callbacks,
        )
    with timer.part("fine-tuning", "Fine-tuning on the question, with and without pre-training."):
        reports, finetune_steps = compare_models(out, draws, test, timer, callbacks)
    with timer.part("examples", "Filling masks and answering a few paragraphs."):
        filler = Predictor.load(model.out, FillMask)
        fills = [
            {"text": text, "words": list(map(asdict, filler(text).masks[0]))} for text in FILLS
        ]
        predictions = predict_first(out / "classifier", test)
        num_draws = len(reports[PRETRAINED])
        further_tfidf = [score_tfidf(train, test) for _, train in draws[1:num_draws]]
    scores: dict[str, list[Mapping[str, Any]]] = {
        name: [report.to_json() for report in group] for name, group in reports.items()
    }
    if tfidf is not None:
        scores["tfidf"] = [baseline.scores for baseline in (tfidf, *further_tfidf) if baseline]
    scores["majority"] = [majority.scores]
    run = RunFolder(model.out).read_run()
    splits = manifest.splits
    config = run["config"]
    results = {
        "command": COMMAND,
        "is_complete": True,
        "out": str(out),
        "minutes": settings.minutes,
        "started_at": started_at,
        "documentation": {
            "num_modules": len(documentation.documents),
            "num_chars": documentation.num_chars,
            "chars_by_library": dict(documentation.chars_by_library.most_common()),
            "skipped": dict(documentation.skipped.most_common()),
        },
        "vocabulary": vocabulary,
        "corpus": {
            "num_sentences": splits["train"].sentences,
            "num_tokens": splits["train"].tokens,
            "num_held_out_tokens": splits["held_out"].tokens,
        },
        "pretraining": dict(model.figures),
        "model": {
            "preset": config["preset"],
            "num_layers": config["model"]["num_hidden_layers"],
            "hidden_size": config["model"]["hidden_size"],
            "num_parameters": sum(part.numel() for part in load_model(model.out).parameters()),
            "masking_rate": config["pretraining"]["masking_rate"],
        },
        "question": {
            "labels": list(train_paragraphs),
            "num_train": len(train),
            "num_train_each": len(train) // len(train_paragraphs),
            "num_dev": len(dev),
            "num_test": len(test),
            "num_draws": num_draws,
            "finetune_steps": finetune_steps,
        },
        "comparison": [
            {
                "name": name,
                **{key: spread([each[key] for each in group]) for key in ("accuracy", "macro_f1")},
            }
            for name, group in scores.items()
        ],
        "confusion": reports[PRETRAINED][0].confusion,
        "fills": fills,
        "predictions": predictions,
        **{name: run[name] for name in ("versions", "machine", "precision")},
        "seconds": {**timer.seconds, "total": timer.total - timer.left},
        "peak_memory_bytes": peak_bytes(),
    }
    write_demo_page(out, results)
    return results


def learn_vocabulary(out: Path, size: int) -> dict[str, Any]:
    """Learn a vocabulary of `size` tokens from the text in `out`; return figures for the page."""
    settings = TokenizerSettings(
        files=(str(out / TEXT),),
        vocab_size=size,
        held_out_share=HELD_OUT_SHARE,
        model_max_length=128,
        compare=False,
    )
    tokenizer, _, report = write_tokenizer(settings, out / "tokenizer")
    stats = report.stats.get("bertsmith")  # with little text, no document may be held out
    return {
        "size": tokenizer.vocab_size,
        "fertility": stats and stats.fertility,
        "unknown_rate": stats and stats.unknown_rate,
        "examples": [
            # Without [CLS] and [SEP]
            {"text": text, "pieces": tokenizer.encode(text).tokens[1:-1]}
            for text in SEGMENTED
        ],
    }


def compare_models(
    out: Path,
    draws: Sequence[Sequence[Sequence[Example]]],
    test: Sequence[Example],
    timer: Timer,
    callbacks: Sequence[Callback],
) -> tuple[dict[str, list[ClassReport]], int]:
    """Fine-tune the pre-trained and the untrained model on each draw, and score them.

    It ends after a draw if there is no time for the next one. The first classifier of the
    pre-trained model is saved in `out`.

    Args:
        draws: for each draw two lists of examples: to choose the best weights by, and to train on.

    Returns:
        For each model by its name, the reports, one for each draw; and the number of steps of the
        shortest fine-tuning.
    """
    reports: dict[str, list[ClassReport]] = {PRETRAINED: [], UNTRAINED: []}
    fewest_steps = FINETUNE_STEPS
    for draw, (dev, train) in enumerate(draws):
        left_before = timer.left
        steps = FINETUNE_STEPS
        seconds_for_draw = timer.left - PAGE_SHARE * timer.total
        for name, group in reports.items():
            timer.say(f"Fine-tuning {METHODS[name].title}, labels {draw + 1} of {len(draws)}.")
            classifier = TextClassifier(
                out / "pretrained",
                out=out / "classifier" if name == PRETRAINED and draw == 0 else None,
                steps=steps,
                learning_rate=FINETUNE_LEARNING_RATE,
                from_scratch=name == UNTRAINED,
                seed=draw,
                threads=1,  # with so few rows, starting processes takes longer than it saves
            )
            # Time limits the pre-trained model; the untrained one then takes as many steps.
            limit = EndAfter(TRAINING_SHARE * seconds_for_draw / len(reports))
            classifier.fit(
                *separate_labels(train),
                eval=separate_labels(dev),
                show_progress=False,
                callbacks=[*callbacks, *([limit] if name == PRETRAINED else [])],
            )
            steps = classifier.result_.training.steps
            group.append(cast(ClassReport, classifier.evaluate(*separate_labels(test))))
        fewest_steps = min(fewest_steps, steps)
        if timer.left - PAGE_SHARE * timer.total < left_before - timer.left:
            break  # the next draw would take as long as this one, but less time is left
    return reports, fewest_steps


def separate_labels(examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    """Return the texts of examples, and their labels."""
    return [example.text for example in examples], [str(example.label) for example in examples]


def predict_first(classifier: Path, test: Sequence[Example]) -> list[dict[str, Any]]:
    """Predict the label of the first test paragraph of each library."""
    # Backwards, so that the first paragraph of each label is the one that stays.
    first_texts = {str(example.label): example.text for example in reversed(test)}
    predict = TextClassifier.load(classifier).predictor_
    predictions = []
    for label, text in sorted(first_texts.items()):
        prediction = predict(text)
        predictions.append(
            {
                "text": text,
                "label": label,
                "predicted": prediction.label,
                "probability": prediction.probability,
                "is_right": prediction.label == label,
            }
        )
    return predictions


def write_texts(out: Path, documents: Sequence[ModuleText], **question: Sequence[Example]) -> None:
    """Write the text to pre-train on, one paragraph per line, and each set of examples as csv."""
    with atomic_write(out / TEXT, "w") as file:
        for document in documents:
            file.write("\n".join(document.paragraphs) + "\n\n")
    for name, examples in question.items():
        with atomic_write(out / "question" / f"{name}.csv", "w") as file:
            file.write(csv_line(["text", "label"]))
            file.writelines(csv_line([example.text, example.label]) for example in examples)
