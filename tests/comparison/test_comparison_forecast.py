"""The forecast of a comparison's runs."""

from pathlib import Path

from bertsmith.comparison.bert_recipe import BertRecipe
from bertsmith.comparison.forecast import describe_duration, format_time
from bertsmith.pretraining.job import PretrainJob
from bertsmith.training.settings import TrainingSettings


class TooLarge(BertRecipe):
    """A recipe whose model does not fit into memory."""

    def estimate_seconds(self):
        raise MemoryError


def test_the_minutes_of_each_run_are_added():
    job = PretrainJob(Path("corpus"), training=TrainingSettings(minutes=3))
    pending = [BertRecipe("a", job), BertRecipe("b", job), BertRecipe("a", job)]
    assert "3 runs to go: about 9.0 minutes" in describe_duration(pending, 0)
    assert "fine-tuning on 2 tasks each" in describe_duration(pending, 2)


def test_one_second_is_singular():
    assert [format_time(seconds) for seconds in (0.2, 0.6, 1.4, 1.6)] == [
        "0 seconds", "1 second", "1 second", "2 seconds",
    ]  # fmt: skip


def test_a_recipe_that_does_not_fit_into_memory_does_not_stop_the_others():
    job = PretrainJob(Path("corpus"), training=TrainingSettings(minutes=3))
    text = describe_duration([BertRecipe("a", job), TooLarge("large", job)], 0)
    assert text == "2 runs to go; too little memory to time 'large'."
