"""Settings of `finetune embed`; their docstrings are its help texts.

`Advanced` marks a setting that only --help-all shows. The `columns` of a settings class are the
options for reading its files.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from bertsmith.config import NAMES_CODE, OTHER_FORMS
from bertsmith.data.columns import RelatedColumns
from bertsmith.errors import ConfigError, option
from bertsmith.system.compute import Advanced
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.settings.vector_losses import (
    LOSS_HELP,
    Loss,
    check_loss,
    is_own_loss,
    loss_entry,
    loss_name,
)


@dataclass(frozen=True)
class EmbedSettings(FinetuneSettings):
    """Teach a BERT to make vectors that tell how similar texts are.

    Takes a pre-trained model and two files, one to learn from and one to score by: pairs of texts
    that belong together (a question and its answer), triples (and one that does not), or pairs with
    a score. The result is a folder that `bertsmith embed`, `bertsmith evaluate` and
    sentence-transformers open.

    Pairs without scores are scored by search: for each text, its partner is searched among all
    partners in the file. The vectors of all texts stay in memory, and the time grows with the
    square of their number; --eval-limit uses fewer pairs.
    """

    # A call of Python may pass a function, which `loss_name` converts to its name. A recipe (a TOML
    # file of settings) may not name a loss of the user's own, since that is code to run.
    loss: Annotated[Literal["auto"] | Loss | str, tyro.conf.arg(help=LOSS_HELP)] = field(
        default="auto", metadata={OTHER_FORMS: loss_name, NAMES_CODE: is_own_loss}
    )
    """Loss: auto, one of `VECTOR_LOSSES`, or your own."""
    temperature: Advanced[float] = 0.05
    """Temperature of all losses but cosine. The lower it is, the more the nearest wrong texts
    count."""
    batch_size: int = 64
    """Batch size: rows per update."""
    group_size: Advanced[int] = 32
    """Number of rows that the loss, other than cosine, compares with one another; in the
    contrastive loss the texts of other rows are negatives. An update has as many groups as fit into
    --batch-size, computed at the same time."""
    pooling: Literal["first_token", "mean"] | None = None
    """Pooling of token vectors to one vector per text. mean is the mean over the tokens,
    first_token the vector of [CLS]. By default that of the model's folder, else mean."""
    metric: Advanced[
        Literal["score", "spearman", "pearson", "mrr", "recall_at_1", "recall_at_5", "recall_at_10"]
    ] = "score"
    """Metric by which the best weights are chosen. score, the default: Spearman correlation if
    --eval has scores, else the mean reciprocal rank (MRR) of the right text."""
    columns: RelatedColumns = field(default_factory=RelatedColumns)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("temperature")
        self.check_positive("group_size", allowed="1 or more")
        check_loss(self.loss)
        # Auto may choose the contrastive loss, which compares the rows of a group.
        compares_rows = self.loss == "auto" or loss_entry(self.loss).compares_rows
        if compares_rows and min(self.group_size, self.batch_size) < 2:
            raise ConfigError(
                f"{option('group_size')}, {option('batch_size')}: found {self.group_size} and "
                f"{self.batch_size}; allowed is 2 or more for both, since each row is compared "
                "with others."
            )
