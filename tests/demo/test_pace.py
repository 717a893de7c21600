"""The plan of five minutes: all of it where it fits, and otherwise less, and it says so."""

from dataclasses import replace

import pytest

from bertsmith.demo.pace import (
    FEWEST_STEPS,
    FINETUNING_SHARE,
    MIN_SECONDS,
    Scale,
    finetuning_seconds,
    plan_pace,
)

FULL = Scale()
STEP_TOKENS = 4000
NUM_TEST = 1100


def test_a_fast_computer_does_all() -> None:
    pace = plan_pace(FULL, 60_000, STEP_TOKENS, NUM_TEST, 260)
    assert pace.is_full and pace.scale == FULL
    assert "all 1,800 steps" in str(pace)


@pytest.mark.parametrize("speed", [500, 2_000, 11_400, 30_000])
@pytest.mark.parametrize("left", [120, 250])
def test_a_slow_computer_does_what_fits_in(speed: float, left: float) -> None:
    pace = plan_pace(FULL, speed, STEP_TOKENS, NUM_TEST, left)
    scale = pace.scale
    assert not pace.is_full and scale.num_draws >= 1
    finetuning = finetuning_seconds(scale, speed, NUM_TEST)
    least = replace(FULL, num_draws=1, finetune_steps=FEWEST_STEPS)
    shortest = finetuning_seconds(least, speed, NUM_TEST)
    assert finetuning <= max(FINETUNING_SHARE * left, shortest)
    assert scale.pretrain_seconds is not None and scale.pretrain_seconds >= MIN_SECONDS
    assert scale.pretrain_seconds + finetuning <= max(left, shortest + MIN_SECONDS) + 1e-6
    steps = scale.pretrain_seconds * speed / STEP_TOKENS
    assert scale.pretrain_steps == max(1, round(steps)) < FULL.pretrain_steps
    assert f"about {scale.pretrain_steps:,} of 1,800 steps" in str(pace)
    assert f"--minutes {pace.minutes}" in str(pace)
    assert ("next to nothing" in str(pace)) == (scale.pretrain_steps < 100)
    assert pace.minutes * 60 >= FULL.pretrain_steps * STEP_TOKENS / speed
