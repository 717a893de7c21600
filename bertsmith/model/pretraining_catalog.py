"""Catalog of what a model is pre-trained on: objectives on tokens, and pair tasks beside them.

A new objective or pair task is a class and an entry here. The command line, the settings, the model
and the training loop read the entries, so this module imports neither torch nor another module of
bertsmith. A run imports the class itself (`pretraining/build.py`, `pretraining/pair_task.py`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

MaskingShares = tuple[float, float, float]
"""Shares of the chosen tokens that are masked, replaced at random, and kept."""


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """The class of an objective or pair task, and the names of its loss."""

    implementation: str
    """The class, as "module:class"."""
    term: str
    """Name of its loss term in a run's journal.jsonl, its log."""
    title: str
    """Name of its loss term on displays."""


@dataclass(frozen=True, kw_only=True)
class ObjectiveEntry(CatalogEntry):
    """An objective on tokens, such as masked LM. Its class is `Pretraining` or a subclass."""

    head: str = "masked_lm"
    """Name of the head that predicts."""
    family: str = "bert"
    """A family that has this head."""
    masking_shares: MaskingShares = (0.8, 0.1, 0.1)
    """Default of `--mask-share`, `--random-share` and `--keep-share`."""
    has_pairs: bool = False
    """Whether its class also computes the loss of a pair task. If not, a run has no pair task."""
    has_generator: bool = False
    """Whether a second model, the generator, replaces tokens."""


@dataclass(frozen=True, kw_only=True)
class PairTaskEntry(CatalogEntry):
    """A task on pairs of texts, learned beside masked LM. Its class is a subclass of `PairTask`."""

    has_head: bool
    """Whether a head of the task's name classifies each row by the vector of [CLS]. If there is no
    such head, the task is assumed not to train the attention of [CLS]."""
    has_short_rows: bool = True
    """Whether `--short-seq-prob` shortens some of the task's rows."""
    chance: float | None = None
    """Accuracy of guessing, if it is the same for every batch."""


OBJECTIVES = {
    "masked_lm": ObjectiveEntry(
        implementation="bertsmith.pretraining.objective:Pretraining",
        term="mlm",
        title="masked LM",
        has_pairs=True,
    ),
    "replaced_token": ObjectiveEntry(
        implementation="bertsmith.pretraining.replaced_tokens:ReplacedTokens",
        term="rtd",
        title="replaced tokens",
        head="replaced_token",
        family="electra",
        # The shares of ELECTRA's released code; its paper masks all chosen tokens. If no chosen
        # token is kept, a small generator may for a long time predict mere token frequencies: after
        # 30 M tokens its loss at masked tokens was 6.89 nats. With some tokens kept it was at most
        # 6.56 after 17 M (one run each).
        masking_shares=(0.85, 0.0, 0.15),
        has_generator=True,
    ),
}
"""Objectives on tokens, by their name in `--objective`; the first is the default of most families.
"""

PAIR_TASKS = {
    "next_sentence": PairTaskEntry(
        implementation="bertsmith.pretraining.classified_pairs:NextSentence",
        term="nsp",
        title="next sentence",
        has_head=True,
        chance=0.5,
    ),
    "sentence_order": PairTaskEntry(
        implementation="bertsmith.pretraining.classified_pairs:SentenceOrder",
        term="sop",
        title="sentence order",
        has_head=True,
        chance=0.5,
    ),
    "contrastive": PairTaskEntry(
        implementation="bertsmith.pretraining.contrastive:ContrastivePairs",
        term="contrast",
        title="contrastive",
        has_head=False,
        has_short_rows=False,
    ),
}
"""Pair tasks, by their name in `--pairs`."""

# The command line and recipes accept the names above. They also accept names that modules of the
# user add later (`ADDED_NAMES` in bertsmith/config.py). mypy cannot read a Literal that is
# computed, so for mypy these types are `str`.
if TYPE_CHECKING:
    ObjectiveName = str
    PairTaskName = str
else:
    ObjectiveName = Literal[tuple(OBJECTIVES)]
    PairTaskName = Literal[(*PAIR_TASKS, "none")]
