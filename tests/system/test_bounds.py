"""Values that no run could ever have are refused at once, by name and with what is allowed."""

import math
from functools import partial

import pytest
from refusals import refuses

from bertsmith.commands.settings.serve import Settings as ServeSettings
from bertsmith.compression.settings import VocabularySettings
from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.system.bounds import LARGEST
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.training.settings import OptimSettings, TrainingSettings
from bertsmith.vocabulary.settings import TokenizerSettings


def classify(**given):
    return ClassifySettings(model="m", train="t", out="o", **given)


@pytest.mark.parametrize(("settings", "name", "place"), [
    (TrainingSettings, "eval_rows", "--eval-rows"),
    (classify, "batch_size", "--batch-size"),
    (VocabularySettings, "min_count", "--min-count"),
    (partial(TokenizerSettings, files=("a",)), "processes", "--processes"),
    (partial(ServeSettings, models=("m",)), "max_characters", "--max-characters"),
])  # fmt: skip
def test_settings_that_never_end(settings, name, place):
    for value in (10**26, math.inf, math.nan):
        with refuses(ConfigError, f"{place}: found {value};", f"{LARGEST[name]:,}"):
            settings(**{name: value})
    with refuses(ConfigError, place, f"at most {LARGEST[name]:,}"):
        settings(**{name: LARGEST[name] + 1})


@pytest.mark.parametrize(("settings", "parts"), [
    (partial(OptimSettings, learning_rate=0.0), ["--learning-rate: found 0.0", "above 0"]),
    (partial(OptimSettings, decay_fraction=0.4),
     ["--decay-fraction: found 0.4", "schedule linear", "--schedule wsd"]),
    (partial(OptimSettings, schedule="wsd", decay_fraction=0.95),
     ["--decay-fraction: found 0.95", "above 0", "at most 1 minus --warmup-fraction"]),
    (partial(TrainingSettings, steps=5, minutes=1.0), ["--steps (5)", "--minutes (1.0)"]),
    (partial(classify, epochs=2, steps=9), ["--epochs and --steps"]),
    (partial(classify, learning_rate=math.nan), ["--learning-rate: found nan", "above 0"]),
    (partial(classify, seed=-1), ["--seed: found -1", f"0 to {2**63 - 1:,}"]),
])  # fmt: skip
def test_values_out_of_bounds_or_beside_each_other(settings, parts):
    with refuses(ConfigError, *parts):
        settings()


def test_sizes_of_models_and_minutes():
    for name in BertConfig.sizes:
        sizes = {**dict.fromkeys(BertConfig.sizes, 8), name: LARGEST[name] + 1}
        with refuses(ConfigError, f"{name}: found {sizes[name]};", f"{LARGEST[name]:,}"):
            BertConfig(**sizes)
    for minutes in (1e300, math.nan, 0):
        with refuses(ConfigError, f"--minutes: found {minutes};"):
            TrainingSettings(minutes=minutes)
    TrainingSettings(minutes=60 * 24 * 30)
