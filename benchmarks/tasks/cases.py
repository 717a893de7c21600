"""The data sets: what each is, how much of it is taken, and with which settings both sides learn.

Hyper-parameters are the same on both sides: 3 epochs, of the two largest sets 2, in batches of 16
with a rate that falls linearly from 1e-4 (what bertsmith takes by itself for this width), AdamW
with weight decay 0.01 on matrices, dropout 0.1, bf16. AdamW's epsilon is each side's own: 1e-6, as
in BERT's released code, and the Trainer's 1e-8. The tutorial's IMDB run has the tutorial's rate.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertsmith.tasks.catalog import task_named

SHORT, MEDIUM, LONG = 128, 256, 384
"""Tokens in a row."""


@dataclass(frozen=True)
class Case:
    """A data set of a task.

    Attributes:
        title: as it stands in the table.
        task: the name of the task, which is also that of its file in bertsmith/tasks.
        train: file to learn from, below the data folder; of `eval` the scores are.
        metric: which figure of the task is compared.
        columns: how the files are read, for the task's class of columns.
        more: further settings of bertsmith.
        has_peer: whether the Trainer can do the same.
    """

    title: str
    task: str
    train: str
    eval: str
    metric: str
    max_length: int = SHORT
    limit: int | None = None
    eval_limit: int | None = None
    learning_rate: float = 1e-4
    epochs: int = 3
    columns: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    has_peer: bool = True


CASES = {
    "sst2": Case(
        "SST-2, 2,000 sentences", "classify", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv",
        "accuracy", limit=2000,
    ),
    "mrpc": Case(
        "MRPC", "classify", "glue/MRPC/train.tsv", "glue/MRPC/dev.tsv", "accuracy",
        columns={"text_column": "#1 String", "pair_column": "#2 String",
                 "label_column": "Quality"},
    ),
    "rte": Case("RTE", "classify", "glue/RTE/train.tsv", "glue/RTE/dev.tsv", "accuracy",
                max_length=MEDIUM),
    "cola": Case(
        "CoLA", "classify", "glue/CoLA/train.tsv", "glue/CoLA/dev.tsv", "matthews_correlation",
        columns={"text_column": "4", "label_column": "2", "header": "no"},
    ),
    "stsb": Case(
        "STS-B", "regress", "glue/STS-B/train.tsv", "glue/STS-B/dev.tsv", "pearson",
        columns={"text_column": "sentence1", "pair_column": "sentence2",
                 "label_column": "score"},
    ),
    "conll": Case(
        "CoNLL-2003 names, 3,000 sentences", "tag", "conll2003/eng.train", "conll2003/eng.testa",
        "f1", limit=3000,
    ),
    "ewt": Case(
        "UD English EWT parts of speech", "tag", "ud_english_ewt/train.conllu",
        "ud_english_ewt/dev.conllu", "accuracy", epochs=2,
    ),
    "squad": Case(
        "SQuAD 1.1, 5,000 questions", "answer", "squad/train-v1.1.json.xz", "squad/dev-v1.1.json",
        "f1", max_length=LONG, limit=5000, eval_limit=1000, epochs=2, more={"stride": 128},
    ),
    "codah": Case(
        "CODAH", "choose", "codah/train.tsv", "codah/dev.tsv", "accuracy",
        columns={"text_column": "2", "choice_columns": "3-6", "label_column": "7",
                 "header": "no"},
    ),
    "imdb": Case(
        "IMDB as in the tutorial: 1,000 reviews, their first 256 tokens", "classify",
        "imdb/train.csv.xz", "imdb/test.csv.xz", "accuracy", max_length=MEDIUM, limit=1000,
        eval_limit=1000, learning_rate=2e-5, more={"long_texts": "cut"},
    ),
    "imdb-whole": Case(
        "IMDB, 1,000 whole reviews in windows of 256 tokens", "classify", "imdb/train.csv.xz",
        "imdb/test.csv.xz", "accuracy", max_length=MEDIUM, limit=1000, eval_limit=1000,
        learning_rate=2e-5, has_peer=False,
    ),
}  # fmt: skip

BATCH_SIZE = 16
WEIGHT_DECAY = 0.01
MAX_ANSWER_LENGTH = 30
DOCUMENT_STRIDE = 128


def our_settings(case: Case, data: Path, model: Path, out: Path, seed: int) -> Any:
    """Convert a case to bertsmith's settings."""
    kind: Any = task_named(case.task)
    return kind.settings(
        model=model,
        train=data / case.train,
        eval=data / case.eval,
        out=out,
        columns=kind.columns(**case.columns),
        limit=case.limit,
        eval_limit=case.eval_limit,
        max_length=case.max_length,
        epochs=case.epochs,
        batch_size=BATCH_SIZE,
        learning_rate=case.learning_rate,
        weight_decay=WEIGHT_DECAY,
        warmup_fraction=0.0,
        seed=seed,
        device="cpu",
        precision="bf16",
        **case.more,
    )
