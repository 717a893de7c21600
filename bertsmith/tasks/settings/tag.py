"""Settings of `finetune tag`; their docstrings are its help texts.

`Advanced` marks a setting that only --help-all shows. The `columns` of a settings class are the
options for reading its files.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertsmith.data.columns import TagColumns
from bertsmith.data.label_schemes import Scheme
from bertsmith.system.compute import Advanced
from bertsmith.tasks.settings.finetune import WindowSettings
from bertsmith.tasks.settings.losses import LossSettings

Metric = Literal["f1", "macro_f1", "accuracy"]


@dataclass(frozen=True)
class TagSettings(WindowSettings, LossSettings):
    """Teach a BERT to label words: names, parts of speech.

    Takes a pre-trained model and two files of labelled words: one to learn from, one to score by.
    They are CoNLL columns (a word a line, its label in the last column, an empty line after each
    sentence), CoNLL-U or jsonl. Labels may follow any scheme (IOB1, IOB2, BIOES, BMES, BILOU or
    plain), which is detected. The result is a folder that `bertsmith evaluate`, `bertsmith predict`
    and transformers open.
    """

    train: Path
    """Labelled words to train on: CoNLL columns, CoNLL-U, .jsonl, .json or .parquet, also
    as .gz, .xz or .zst."""
    metric: Metric = "f1"
    """Score by which the best weights are chosen: f1 of entities (with plain labels, of all words
    that are not labelled O), macro_f1, the mean F1 of their types, or accuracy, the share of words
    with the right label."""
    learn: Advanced[Scheme | None] = None
    """Label scheme of the model; by default that of --train, but IOB2 for IOB1, in which the
    beginning of an entity is hard to predict."""
    columns: TagColumns = field(default_factory=TagColumns)
