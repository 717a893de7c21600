"""The whole road in one call, from the documentation on this computer to a report.

Every step is the same public function that the command of its name calls; what is particular to
the demo is only where the text and the question come from, and the report.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from bertsmith.data.corpus import build_corpus
from bertsmith.data.settings import CorpusSettings
from bertsmith.demo import figures
from bertsmith.demo.baselines import (
    Score,
    majority_class,
    tfidf_with_logistic_regression,
)
from bertsmith.demo.corpus import Documentation, Installation, read_documentation
from bertsmith.demo.figures import PRETRAINED, UNTRAINED
from bertsmith.demo.folder import COMMAND, RESULT_NAME, Places, fresh_folder
from bertsmith.demo.pace import (
    COUNTING,
    ENDING,
    READING_SECONDS,
    SMALL_TEST,
    SPARE_SECONDS,
    TOTAL_SECONDS,
    DemoScale,
    finetuning_seconds,
    measure_pace,
    shorten_finetuning,
)
from bertsmith.demo.page import METHODS, write_demo_page
from bertsmith.demo.question import (
    LABELS,
    DemoQuestion,
    QuestionSize,
    ask,
    is_for_corpus,
    write_documents,
    write_examples,
)
from bertsmith.errors import ConfigError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.metrics.class_report import ClassReport
from bertsmith.model.loading import load_model
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.files import atomic_dir, write_json
from bertsmith.system.terminal import Say
from bertsmith.tasks.auto import load, load_predictor
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.settings import OptimSettings, TrainingSettings
from bertsmith.vocabulary.settings import TokenizerSettings
from bertsmith.vocabulary.train import TokenizerReport, train_tokenizer

LONGEST_TEXT = 128

# As the recipe quarter-hour, for fewer steps, and with next sentence prediction, which the page
# explains.
MODEL = ModelSettings(
    preset="tiny",
    max_position_embeddings=LONGEST_TEXT,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.05,
    position_initializer="sinusoidal",
    word_initializer="counted",
)
PRETRAINING = PretrainingSettings(
    max_length=64, start_share=1 / 6, start_length=16, masking_rate=0.25
)
OPTIM = OptimSettings(optimizer="muon", learning_rate=6e-3, warmup_fraction=0.06)
BATCH_SIZE = 64
FINETUNE_LEARNING_RATE = 5e-4
HELD_OUT = CorpusSettings(held_out=0.02)

FILLS = (
    "The default [MASK] is None.",
    "Raises an error if the file does not [MASK].",
    "Return the [MASK] of the elements along the given axis.",
    "If True, return a [MASK] of the array.",
    "The number of [MASK] in the graph.",
    "Set the [MASK] of the line.",
)


@dataclass(frozen=True)
class DemoSettings:
    """Output folder and length of a demo."""

    out: Path = Path("runs/demo")
    """The folder for everything: text, vocabulary, corpus, models, and report.html. An earlier
    demo in it is replaced; nothing else is."""
    minutes: float | None = None
    """Minutes of pre-training; the rest takes one to three more. Default: 1,800 steps, or as many
    as let all end after five minutes on this computer."""
    quick: bool = False
    """Only try whether everything works: little text and a few steps, no useful model."""

    def __post_init__(self) -> None:
        if self.out.name in ("", ".."):
            raise ConfigError(f"--out: found '{self.out}'; allowed is a folder of its own.")
        if self.quick and self.minutes is not None:
            raise ConfigError("--quick and --minutes exclude each other. Give one of them.")
        if self.minutes is not None and not 0 < self.minutes < 1e6:
            raise ConfigError(f"--minutes: found {self.minutes}; allowed is a number above 0.")


FULL = DemoScale()
QUICK = DemoScale(
    max_chars=800_000,
    max_chars_per_library=100_000,
    vocab_size=1000,
    question=QuestionSize(train=4, dev=2, test=6),
    num_draws=2,
    finetune_steps=4,
    pretrain_steps=20,
)


NUM_STEPS = 7
SHORT_MINUTES = 5.0
"""Minutes of pre-training below which reading is kept short as well."""
MIN_FINETUNING_SECONDS = 60.0
"""Fine-tuning has so much time, whatever pre-training has."""


class Clock:
    """A timer of the demo's steps that announces each as it begins."""

    def __init__(self, say: Say) -> None:
        self.seconds: dict[str, float] = {}
        self.say = say
        self.ends_at: float | None = None
        """Seconds after which the demo is expected to end, where that is known."""
        self._started_at = time.perf_counter()

    @contextmanager
    def step(self, name: str, words: str) -> Iterator[None]:
        """Time a block under `name`."""
        left = "" if self.ends_at is None else f" {self._left(self.ends_at)}"
        self.say(f"[{len(self.seconds) + 1} of {NUM_STEPS}] {words}{left}")
        started_at = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started_at

    def _left(self, ends_at: float) -> str:
        minutes = (ends_at - self.total) / 60
        return f"About {minutes:.0f} minutes to go." if minutes >= 1.5 else "About a minute to go."

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._started_at


def run_demo(
    settings: DemoSettings,
    *,
    say: Say = lambda line: None,
    callbacks: Sequence[Callback] = (),
    installation: Installation | None = None,
) -> dict[str, Any]:
    """Go the whole road and return the figures that `demo.json` and the report hold.

    Args:
        callbacks: called with every entry of pre-training.
        installation: whose documentation to read; this Python's where not given.

    Raises:
        ConfigError: something else stands at `out`.
        InputError: too little documentation is installed, or the disk is full.
    """
    scale = QUICK if settings.quick else FULL
    places = Places(settings.out)
    with fresh_folder(settings.out):
        source = installation or Installation.current()
        results = _run(settings, scale, places, Clock(say), callbacks, source)
        write_json(settings.out / RESULT_NAME, results)
    return results


def _run(
    settings: DemoSettings,
    scale: DemoScale,
    places: Places,
    clock: Clock,
    callbacks: Sequence[Callback],
    installation: Installation,
) -> dict[str, Any]:
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    is_planned = settings.minutes is None and not settings.quick
    if is_planned:
        clock.ends_at = TOTAL_SECONDS
        clock.say(
            f"Plan: {TOTAL_SECONDS / 60:.0f} minutes in all. Reading and building a corpus take "
            "about one, then the speed of this computer tells how much training fits in."
        )
    with clock.step("reading", "Reading the documentation of the installed packages."):
        is_short = is_planned or (settings.minutes or SHORT_MINUTES) < SHORT_MINUTES
        seconds = READING_SECONDS if is_short else None
        documentation = read_documentation(
            installation,
            tuple(LABELS),
            max_chars=scale.max_chars,
            max_chars_per_library=scale.max_chars_per_library,
            seconds=seconds,
            say=clock.say,
        )
        if seconds is not None and clock.total > seconds:
            scale = replace(scale, question=replace(scale.question, test=SMALL_TEST))
        question = ask(documentation.documents, scale.question, scale.num_draws)
        write_texts(places, documentation, question)
    with clock.step("vocabulary", f"Learning a vocabulary of {scale.vocab_size:,} tokens."):
        tokenizer, report = learn_vocabulary(places, scale)
    with clock.step("corpus", "Turning the text into a corpus of token ids."):
        manifest = build_corpus([places.text], tokenizer, places.corpus, HELD_OUT)
    pace = None
    if not settings.quick:
        num_test, vocabulary_seconds = len(question.test), clock.seconds["vocabulary"]
        planned = pretrain_job(settings, scale, places)
        measured = measure_pace(planned, scale, num_test, vocabulary_seconds, lambda: clock.total)
        seconds = 60 * (settings.minutes or 0)
        if is_planned:
            pace, scale = measured, measured.scale
            seconds = scale.pretrain_seconds or 0.0
            clock.say(str(pace))
        else:  # on a slow computer the rest is not to take longer than what was asked for
            allowed = max(MIN_FINETUNING_SECONDS, seconds)
            scale = shorten_finetuning(scale, measured.tokens_per_second, num_test, allowed)
        seconds += finetuning_seconds(scale, measured.tokens_per_second, num_test)
        seconds += COUNTING * vocabulary_seconds
        clock.ends_at = clock.total + seconds + ENDING * vocabulary_seconds
    job = pretrain_job(settings, scale, places)
    with clock.step("pre-training", "Pre-training: guessing hidden words, telling what follows."):
        # With `measure`, a wish to stop in the last step ends the demo.
        pretraining = run_pretraining(
            job, places.pretrained, callbacks=callbacks, measure=lambda model: {}
        )
    if pace is not None:  # planned anew, since another speed may have shown in the meantime
        left = TOTAL_SECONDS - SPARE_SECONDS - clock.total - ENDING * clock.seconds["vocabulary"]
        speed = pretraining["tokens_per_second"]
        scale = shorten_finetuning(scale, speed, len(question.test), left)
    with clock.step("fine-tuning", "Fine-tuning on the question, with and without pre-training."):
        evaluations = compare_models(places, scale, clock, callbacks, is_planned=is_planned)
        num_draws = len(evaluations[PRETRAINED])
        question = replace(question, draws=question.draws[:num_draws])
    if clock.ends_at is not None:  # the estimate before had all of training in it
        clock.ends_at = clock.total + ENDING * clock.seconds["vocabulary"]
    with clock.step("baselines", "Asking two plain methods the same question."):
        scores = {
            name: [Score(report.accuracy, report.macro_f1) for report in group]
            for name, group in evaluations.items()
        }
        tfidf = [tfidf_with_logistic_regression(draw, question.test) for draw in question.draws]
        if known := [score for score in tfidf if score is not None]:
            scores["tfidf"] = known
        else:
            clock.say(
                "scikit-learn is not installed, so TF-IDF with logistic regression is left out "
                "(pip install 'bertsmith[demo]' adds it)."
            )
        scores["majority"] = [majority_class(question.draws[0], question.test)]
    with clock.step("examples", "Filling masks and answering a few paragraphs."):
        examples = {"fills": fill_masks(places), "predictions": predict_first(places, question)}
    run, answers = RunFolder(places.pretrained).read_run(), evaluations[PRETRAINED][0].to_json()
    results = {
        "command": COMMAND,
        "is_complete": True,
        "out": str(settings.out),
        "started_at": started_at,
        "plan": None if pace is None else pace.to_json(),
        "documentation": figures.of_documentation(documentation),
        "vocabulary": figures.of_vocabulary(tokenizer, report),
        "corpus": figures.of_corpus(manifest),
        "pretraining": pretraining,
        "model": figures.of_model(load_model(places.pretrained), job),
        "question": figures.of_question(question),
        "comparison": figures.of_comparison(scores),
        **{name: answers[name] for name in ("classes", "confusion")},
        **examples,
        **{name: run[name] for name in ("versions", "machine", "precision")},
        "seconds": {**clock.seconds, "total": clock.total},
        "peak_memory_bytes": figures.peak_memory_bytes(),
    }
    write_demo_page(places, results)
    return results


def write_texts(places: Places, documentation: Documentation, question: DemoQuestion) -> None:
    write_documents(places.text, filter(is_for_corpus, documentation.documents))
    write_examples(places.dev, question.dev)
    write_examples(places.test, question.test)
    for draw, examples in enumerate(question.draws):
        write_examples(places.train(draw), examples)


def learn_vocabulary(places: Places, scale: DemoScale) -> tuple[Tokenizer, TokenizerReport]:
    settings = TokenizerSettings(
        files=(str(places.text),),
        vocab_size=scale.vocab_size,
        held_out_share=HELD_OUT.held_out,
        model_max_length=LONGEST_TEXT,
        compare=False,
    )
    tokenizer, _, report = train_tokenizer(settings)
    with atomic_dir(places.tokenizer) as folder:
        tokenizer.save(folder)
    return tokenizer, report


def pretrain_job(settings: DemoSettings, scale: DemoScale, places: Places) -> PretrainJob:
    """Build the job that serves a few minutes on two cores best."""
    minutes = settings.minutes
    if scale.pretrain_seconds is not None:
        minutes = scale.pretrain_seconds / 60
    return PretrainJob(
        corpus=places.corpus,
        model=MODEL,
        pretraining=PRETRAINING,
        training=TrainingSettings(
            steps=scale.pretrain_steps if minutes is None else None,
            minutes=minutes,
            batch_size=BATCH_SIZE,
            keep=0,
        ),
        optim=OPTIM,
    )


def compare_models(
    places: Places,
    scale: DemoScale,
    clock: Clock,
    callbacks: Sequence[Callback],
    *,
    is_planned: bool,
) -> dict[str, list[ClassReport]]:
    """Fine-tune both models on every draw and score them on the same held-out modules.

    Only the pre-trained model's first classifier is kept. Where the demo `is_planned`, a further
    draw is left out if it would end too late.
    """
    evaluations: dict[str, list[ClassReport]] = {PRETRAINED: [], UNTRAINED: []}
    ending = SPARE_SECONDS + ENDING * clock.seconds["vocabulary"]
    with tempfile.TemporaryDirectory(dir=places.out, prefix=".models.") as folder:
        for draw in range(scale.num_draws):
            began = clock.total
            for name, group in evaluations.items():
                clock.say(
                    f"Fine-tuning {METHODS[name][0]}, labels {draw + 1} of {scale.num_draws}."
                )
                is_kept = name == PRETRAINED and draw == 0
                out = places.classifier if is_kept else Path(folder) / f"{name}-{draw}"
                settings = ClassifySettings(
                    model=places.pretrained,
                    train=places.train(draw),
                    eval=places.dev,
                    out=out,
                    steps=scale.finetune_steps,
                    learning_rate=FINETUNE_LEARNING_RATE,
                    from_scratch=name == UNTRAINED,
                    seed=draw,
                )
                finetune(Classify, settings, callbacks)
                group.append(cast(ClassReport, evaluate(load_predictor(out), places.test)))
            ends_at = 2 * clock.total - began + ending
            if is_planned and draw + 1 < scale.num_draws and ends_at > TOTAL_SECONDS:
                clock.say("No further fine-tuning fits in.")
                break
    return evaluations


def fill_masks(places: Places) -> list[dict[str, Any]]:
    filler = Predictor.load(places.pretrained, FillMask)
    return [
        {"text": text, "words": [asdict(word) for word in filler(text).masks[0]]} for text in FILLS
    ]


def predict_first(places: Places, question: DemoQuestion) -> list[dict[str, Any]]:
    first = {example.label: example for example in reversed(question.test)}
    examples = [first[label] for label in sorted(first, key=str)]
    predictions = load(places.classifier)([example.text for example in examples])
    return [
        {
            "text": example.text,
            "label": example.label,
            "predicted": prediction.label,
            "probability": prediction.probability,
            "is_right": prediction.label == example.label,
        }
        for example, prediction in zip(examples, predictions, strict=True)
    ]
