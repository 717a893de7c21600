"""A comparison of three tiny recipes with a task: fresh for each test, or finished."""

import numpy as np
import pytest
from tiny_models import write_csv

from bertsmith.comparison.job import compare
from bertsmith.comparison.settings import ComparisonSettings

FILE = """
steps = 4
seeds = 2

[shared.model]
preset = "tiny"
max_position_embeddings = 32
hidden_dropout_prob = 0.0
[shared.pretraining]
max_length = 16
[shared.training]
batch_size = 4
minutes = 9
[shared.optim]
learning_rate = 1e-3

[recipes."next sentence"]
[recipes."no pairs"]
pretraining.pairs = "none"
[recipes."100/0/0"]
pretraining = { mask_share = 1.0, random_share = 0.0, keep_share = 0.0 }

[tasks.words]
task = "classify"
train = "train.csv"
eval = "eval.csv"
steps = 2
batch_size = 5
"""


def write_lab(folder, corpus_dir):
    """Write `lab.toml` and the task's files; gives the settings to compare with."""
    (folder / "lab.toml").write_text(FILE)
    for seed, (name, count) in enumerate({"train": 23, "eval": 11}.items()):
        rng = np.random.default_rng(seed)
        labels = rng.choice(["bace", "difo"], count)
        rows = [(f"{label} {rng.choice(['guha', 'keli', 'monu'])}.", label) for label in labels]
        write_csv(folder / f"{name}.csv", ("text", "label"), *rows)
    return ComparisonSettings(
        (folder / "lab.toml",), corpus_dir, folder / "out", data=folder, eval_rows=6,
        final_rows=13, measure_memory=False, device="cpu", precision="fp32", threads=1,
    )  # fmt: skip


@pytest.fixture
def settings(tmp_path, corpus_dir):
    return write_lab(tmp_path, corpus_dir)


@pytest.fixture(scope="session")
def finished(tmp_path_factory, corpus_dir):
    """The settings of a comparison that was never stopped."""
    settings = write_lab(tmp_path_factory.mktemp("lab"), corpus_dir)
    compare(settings)
    return settings
