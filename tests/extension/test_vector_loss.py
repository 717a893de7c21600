"""A loss of text vectors is one function, named on the command line or given in Python."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch.nn.functional as F
from refusals import check_message
from small_workers import OPTIM, check_same_as_one_process
from tiny_models import BAD, GOOD, OTHER, save_tiny, tiny_model, tiny_tokenizer, write_csv
from torch import Tensor, float32

from bertsmith import SentenceEncoder
from bertsmith.data.sentence_pairs import RelatedTexts
from bertsmith.errors import BertsmithWarning
from bertsmith.errors.notices import issued_warnings
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples
from bertsmith.tasks.related_vectors import RelatedVectors
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.training.journal import read_journal
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.share import Plan


def triplet_loss(group: RelatedVectors) -> Tensor:
    """Hinge loss on distances (Reimers & Gurevych 2019, section 3)."""
    owners = group.negative_owners
    anchors, positives = group.anchors[owners], group.positives[owners]
    return F.triplet_margin_loss(anchors, positives, group.negatives, margin=0.5, reduction="sum")


def margin_mse(group: RelatedVectors) -> Tensor:
    """Squared error of the margin that a teacher scored (Hofstätter et al. 2020)."""
    owners = group.negative_owners
    margins = (group.anchors[owners] * (group.positives[owners] - group.negatives)).sum(1)
    return F.mse_loss(margins, group.scores[owners], reduction="sum")


TRIPLES = [
    (f"{word} {other}", f"{other} {same}", f"{other} {opposite}")
    for words, opposites in ((GOOD, BAD), (BAD, GOOD))
    for word, same, opposite in zip(words, words[1:] + words[:1], opposites, strict=True)
    for other in OTHER[:7]
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("start") / "model", "masked_lm")


def test_a_loss_is_given_to_the_estimator_or_named_on_the_command_line(
    model: Path, tmp_path: Path, bertsmith: Callable[..., str]
) -> None:
    encoder = SentenceEncoder(
        model, loss=triplet_loss, out=tmp_path / "fit", steps=30, learning_rate=5e-3, dropout=0.0,
        batch_size=21, device="cpu", precision="fp32", verbose=0,
    )  # fmt: skip
    train = write_csv(tmp_path / "triples.csv", ("anchor", "positive", "negative"), *TRIPLES)
    encoder.fit(train, eval=train)
    losses = [
        entry["embed_loss"] for entry in read_journal(tmp_path / "fit" / "journal.jsonl")
        if "embed_loss" in entry
    ]  # fmt: skip
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    bertsmith(
        "finetune", "embed", "--model", model, "--train", train, "--eval", train, "--out", "typed",
        "--loss", f"{__name__}:triplet_loss", "--steps", 30, "--learning-rate", 5e-3, "--dropout",
        0, "--batch-size", 21, "--device", "cpu", "--precision", "fp32",
    )  # fmt: skip
    weights = [Path(folder, "model.safetensors").read_bytes() for folder in ("fit", "typed")]
    assert weights[0] == weights[1]

    # A folder may come from anywhere, so its loss is not imported again.
    issued_warnings.clear()
    with pytest.warns(BertsmithWarning) as caught:
        loaded = SentenceEncoder.load("typed", device="cpu", precision="fp32")
    assert all(part in str(caught[0].message) for part in ("triplet_loss", "set_params(loss="))
    assert loaded.loss == "auto"
    np.testing.assert_array_equal(loaded.encode("good film"), encoder.encode("good film"))


NOTEBOOK = """
import sys
import bertsmith

def squared_distance(group):
    return (group.anchors - group.positives).square().sum()

pairs = [("a film", "a story"), ("good", "lovely"), ("bad", "dull"), ("the", "was")]
for threads in (1, 2):
    encoder = bertsmith.SentenceEncoder(
        sys.argv[1], loss=squared_distance, steps=2, precision="fp32", device="cpu", verbose=0,
        threads=threads,
    )
    try:
        print(encoder.fit(pairs, eval=None).result_.training.steps)
    except bertsmith.BertsmithError as error:
        print(error)
"""


@pytest.mark.same_on_all_computers
def test_a_loss_of_a_notebook_needs_one_process(model: Path) -> None:
    """A script from standard input, which has no file either."""
    done = subprocess.run(
        [sys.executable, "-", model], input=NOTEBOOK, capture_output=True, text=True, check=True
    )
    steps, message = done.stdout.splitlines()
    assert steps == "2"
    check_message(message, "loss='__main__:squared_distance': ", "a module", "threads=1")


def test_a_loss_may_read_scores_and_negatives(model: Path, tmp_path: Path) -> None:
    """The margins of a teacher, 3 or -2, are scores of triples."""
    rows = [
        (anchor, *(others if number % 2 else others[::-1]), 3 if number % 2 else -2)
        for number, (anchor, *others) in enumerate(TRIPLES)
    ]
    names = ("anchor", "positive", "negative", "score")
    train = write_csv(tmp_path / "margins.csv", names, *rows)
    encoder = SentenceEncoder(
        model, loss=margin_mse, out=tmp_path / "out", steps=60, learning_rate=5e-3, dropout=0.0,
        batch_size=42, device="cpu", precision="fp32", verbose=0,
    )  # fmt: skip
    encoder.fit(train, eval=None)
    vectors = np.stack([encoder.encode(list(row[:3])) for row in rows])
    margins = (vectors[:, 0] * (vectors[:, 1] - vectors[:, 2])).sum(1)
    errors = np.square(margins - [row[3] for row in rows])
    assert errors.mean() < 1  # always to answer their mean, 0.5, would give 6.25


def test_worker_processes_compute_a_loss_of_another_module() -> None:
    task = Embed(loss=f"{__name__}:triplet_loss", group_size=5)
    examples = [RelatedTexts(a, b, (c,), row=row) for row, (a, b, c) in enumerate(TRIPLES)]
    encoded = task.encode(tiny_tokenizer(), examples, 37, labelled=True)
    train = training_examples(task, encoded, Path("a.csv"), examples)
    held_out = HeldOutExamples(encoded, Path("a.csv"), examples)
    objective = FineTuning(task, train, held_out, batch_size=13, num_shares=2)
    alone, together = (
        LocalWorkers(tiny_model().train(), float32, Plan(objective, OPTIM, 3, 2)) for _ in range(2)
    )
    check_same_as_one_process(alone, together)
