"""The plan of a demo that fits into five minutes on this computer, by measured speeds."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bertsmith.data.shards import Corpus
from bertsmith.demo.question import QuestionSize
from bertsmith.pretraining.auto_size import tokens_per_second
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.training.findings import LEARNING_STEPS
from bertsmith.training.machine import computing_on

TOTAL_SECONDS = 300.0
READING_SECONDS = 45.0
"""After these, modules are left unread; one quiet core needs 30 of them."""
FINETUNING_SHARE = 0.3
"""Share of the training time; further draws of labels only show the noise."""
FEWEST_STEPS = 50
"""Fewest steps of a fine-tuning: each labelled paragraph is read four times."""
EXAMPLE_TOKENS = 60
FINETUNE_ROWS = 16
DEV_TOKENS = 16_000
"""Time of choosing the best weights, as tokens of training in the same time."""
TEST_TOKENS = 20
"""Time of scoring a paragraph, as tokens of training in the same time."""
SMALL_TEST = 50
"""Paragraphs of each library to score on where reading took longer than it should."""
COUNTING = 0.5
"""Counting the first word embeddings, as a multiple of the time in which the vocabulary was
learned: 5.7 and 14.4 seconds of one core."""
ENDING = 0.2
"""Baselines, examples and the page, as a multiple of the vocabulary's time."""
SPARE_SECONDS = 15.0
"""Loading the program before the clock starts, saving models, and what estimates miss."""
MIN_SECONDS = 20.0
"""Pre-training has so much time even where the rest has taken all of it."""


@dataclass(frozen=True)
class DemoScale:
    """Amounts of text, labels and training of a demo."""

    max_chars: int = 8_000_000
    max_chars_per_library: int = 800_000
    vocab_size: int = 8000
    question: QuestionSize = field(default_factory=QuestionSize)
    num_draws: int = 3
    finetune_steps: int = 200
    pretrain_steps: int = 1800
    pretrain_seconds: float | None = None
    """Time for pre-training, where it is planned: no more steps are taken than fit in."""


@dataclass(frozen=True)
class Pace:
    """The scale that fits in, and the speed of pre-training on this computer."""

    full: DemoScale
    scale: DemoScale
    tokens_per_second: float
    full_seconds: float
    """Time of all steps of pre-training."""

    @property
    def is_full(self) -> bool:
        """Whether nothing has to be left out."""
        return self.scale == replace(self.full, pretrain_seconds=self.scale.pretrain_seconds)

    def __str__(self) -> str:
        scale, full = self.scale, self.full
        if self.is_full:
            return (
                f"Plan: all {full.pretrain_steps:,} steps of pre-training, about "
                f"{self.full_seconds / 60:.1f} minutes, and {2 * full.num_draws} fine-tunings."
            )
        few = ""
        if scale.pretrain_steps < LEARNING_STEPS:
            few = (
                " So few steps teach next to nothing: repeat the demo when the computer is less "
                "busy, or give it more time."
            )
        steps = f"all {full.pretrain_steps:,} steps"
        if scale.pretrain_steps < full.pretrain_steps and scale.pretrain_seconds is not None:
            steps = (
                f"about {scale.pretrain_steps:,} of {full.pretrain_steps:,} steps, "
                f"{scale.pretrain_seconds / 60:.1f} minutes"
            )
        return (
            f"Plan, so that all ends after {TOTAL_SECONDS / 60:.0f} minutes: this computer learns "
            f"from {self.tokens_per_second:,.0f} tokens a second. Pre-training: {steps}. "
            f"Fine-tuning: {2 * scale.num_draws} runs of {scale.finetune_steps} steps, in place of "
            f"{2 * full.num_draws} of {full.finetune_steps}. For all of it, give pre-training "
            f"{self.full_seconds / 60:.1f} minutes: --minutes {self.minutes}.{few}"
        )

    @property
    def minutes(self) -> int:
        """Whole minutes in which all steps of pre-training fit."""
        return max(1, -int(-self.full_seconds // 60))

    def to_json(self) -> dict[str, Any]:
        return {
            "is_full": self.is_full,
            "scale": asdict(self.scale),
            "full_steps": self.full.pretrain_steps,
            "full_draws": self.full.num_draws,
            "full_finetune_steps": self.full.finetune_steps,
            "tokens_per_second": self.tokens_per_second,
            "full_seconds": self.full_seconds,
            "full_minutes": self.minutes,
        }


def measure_pace(
    job: PretrainJob,
    full: DemoScale,
    num_test: int,
    vocabulary_seconds: float,
    elapsed: Callable[[], float],
) -> Pace:
    """Time a few steps of `job` and plan the rest of the demo by them.

    Args:
        num_test: paragraphs to score on.
        vocabulary_seconds: what learning the vocabulary took, by which parts without training are
            estimated.
        elapsed: gives the seconds since the demo began.
    """
    with computing_on(job.training) as machine:
        config = resolve_pretraining(job, Corpus.open(job.corpus), machine, is_timed=False)
        objective = build_objective(config)
        speed = tokens_per_second(objective, config.model, machine, config.optim.optimizer)
    step = objective.start_steps + 1  # of full length
    tokens = sum(batch.num_tokens for batch in objective.micro_batches(step))
    left = TOTAL_SECONDS - SPARE_SECONDS - elapsed() - ENDING * vocabulary_seconds
    counting = COUNTING * vocabulary_seconds
    return plan_pace(full, speed, tokens, num_test, left, counting)


def plan_pace(
    full: DemoScale, speed: float, step_tokens: int, num_test: int, left: float, counting: float
) -> Pace:
    """Divide the seconds that are left between pre-training and fine-tuning.

    Args:
        speed: tokens a second.
        step_tokens: tokens of a step of pre-training.
        num_test: paragraphs to score on.
        counting: seconds of preparation for pre-training.
    """
    left -= counting
    full_seconds = full.pretrain_steps * step_tokens / speed
    if full_seconds + finetuning_seconds(full, speed, num_test) <= left:
        return Pace(full, replace(full, pretrain_seconds=full_seconds), speed, full_seconds)
    scale = shorten_finetuning(full, speed, num_test, FINETUNING_SHARE * left)
    seconds = max(MIN_SECONDS, left - finetuning_seconds(scale, speed, num_test))
    steps = max(1, round(seconds * speed / step_tokens))
    scale = replace(
        scale,
        pretrain_steps=min(steps, full.pretrain_steps),
        pretrain_seconds=min(seconds, full_seconds),
    )
    return Pace(full, scale, speed, full_seconds)


def shorten_finetuning(scale: DemoScale, speed: float, num_test: int, allowed: float) -> DemoScale:
    """Leave out draws of labels, then steps, until fine-tuning takes the seconds `allowed`."""
    while scale.num_draws > 1 and finetuning_seconds(scale, speed, num_test) > allowed:
        scale = replace(scale, num_draws=scale.num_draws - 1)
    while scale.finetune_steps > FEWEST_STEPS and (
        finetuning_seconds(scale, speed, num_test) > allowed
    ):
        scale = replace(scale, finetune_steps=max(FEWEST_STEPS, scale.finetune_steps - 10))
    return scale


def finetuning_seconds(scale: DemoScale, speed: float, num_test: int) -> float:
    """Estimate the seconds of training and scoring both models, over all draws.

    It is taken to be as fast as pre-training. One core is 2.3 times as fast, since no words are
    predicted; several cores are slower, since a step has few tokens to share.
    """
    trained = scale.finetune_steps * FINETUNE_ROWS * EXAMPLE_TOKENS
    tokens = trained + DEV_TOKENS + TEST_TOKENS * num_test
    return 2 * scale.num_draws * tokens / speed
