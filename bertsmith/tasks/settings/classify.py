"""Settings of `finetune classify`; their docstrings are its help texts.

A head, here, is what learns from the labels: see the field `head`. Each has options that it has no
use for, which are refused. `Advanced` marks a setting that only --help-all shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from bertsmith.data.columns import Columns
from bertsmith.data.label_separator import check_label_separator
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_choice
from bertsmith.system.compute import Advanced
from bertsmith.system.run_state import FITTED_HEADS
from bertsmith.tasks.settings.finetune import NOT_GIVEN, Sources, WindowSettings
from bertsmith.tasks.settings.losses import LossSettings

Head = Literal["fine-tuned", "linear", "counts", "contrastive", "auto"]
Cell = Literal["lstm", "gru"]
Preset = Literal["tiny", "mini", "small", "medium", "base"]
RecurrentPooling = Literal["max", "last"]
Metric = Literal["accuracy", "macro_f1", "micro_f1", "matthews_correlation"]

OF_SERIES = ("seeds", "folds", "average")
"""Options for several runs, which only the head "fine-tuned" can have."""
ONE_RUN = {
    "linear": "the seed hardly changes it",
    "counts": "the seed hardly changes it",
    "contrastive": "only fine-tuned models are compared and averaged",
    "auto": "it trains one model",
}
"""Reasons, in messages, why a head has no use for the options of several runs."""
CORPUS_HEADS = ("linear", "auto")
"""Heads that may learn from a corpus, too."""
OF_TRAINING = (
    "epochs", "steps", "batch_size", "learning_rate", "weight_decay", "warmup_fraction", "dropout",
    "layer_decay", "freeze_layers", "freeze_embeddings", "metric", "patience", "cls_attention",
    "from_scratch", "label_smoothing", "focal_gamma", "exact", "report_to",
    "cell", "preset", "pooling",
)  # fmt: skip
"""Options of a training, which a linear head has no use for."""
OF_OTHER_LOSS = (
    "metric", "patience", "cls_attention", "from_scratch", "label_smoothing", "focal_gamma", "cell",
    "preset", "pooling",
)  # fmt: skip
"""Options of a training that compares logits with labels. The contrastive head, which compares
pairs of texts, has no use for them."""
UNUSED_OPTIONS: dict[str, tuple[str, ...]] = {
    "fine-tuned": ("corpus", "minutes"),
    "linear": (*OF_SERIES, "resume", *OF_TRAINING, "minutes"),
    "counts": (*OF_SERIES, "resume", *OF_TRAINING, "corpus", "minutes"),
    "contrastive": (*OF_SERIES, *OF_OTHER_LOSS, "corpus", "minutes"),
    "auto": (*OF_SERIES, "patience", "cell", "preset", "pooling"),
}
"""Options that a head has no use for."""

OF_MULTI_LABEL = ("label_separator", "threshold")
"""Options that are used only if a text may have several labels."""


@dataclass(frozen=True)
class ClassifySettings(LossSettings, WindowSettings):
    """Teach a BERT to sort texts into your classes.

    Takes a pre-trained model and two files of labelled texts: one to learn from, one to score by. A
    label may be any word or number. The result is a folder that `bertsmith evaluate`, `bertsmith
    predict` and Hugging Face's transformers open.
    """

    head: Head = "fine-tuned"
    """What learns from the labels. fine-tuned: the whole model. linear: the model stays as it is,
    and logistic regression on its vectors and on word counts is fitted in seconds. This needs no
    --eval, and with few labels it is often better. counts: as linear, but on word counts alone.
    contrastive: the model learns from pairs of texts which ones have the same label, then logistic
    regression is fitted to its vectors; for few labels. auto: the best of these in a
    cross-validation of --train, which takes as long as five trainings of each; --eval has no part
    in the choice. With fewer than 100 texts, auto is contrastive for a sentence encoder, else
    linear."""
    minutes: Advanced[float | None] = None
    """Budget of --head auto in minutes: about the time of its comparison and of the training of the
    chosen head, without the scores on --eval. It leaves out heads that would take longer, and says
    so. If there is time, it also compares the average of three fine-tuned models, that of --seeds 3
    --average. By default auto compares all heads but the average, however long this takes. With
    fewer than 100 texts it compares none, and this option has no effect."""
    corpus: Advanced[Path | None] = None
    """Corpus of texts without labels, of `bertsmith corpus build` with the vocabulary of the model.
    With --head linear, the head also learns from its words and documents; with --head auto, the
    linear head does; with --average, such a head becomes a part of the average."""
    average: Advanced[bool] = False
    """Keep the models of all --seeds: the answer to a text is the mean of their probabilities. This
    takes as many times as long as there are seeds. With --corpus, a linear head that learned from
    it has half of the weight."""
    metric: Metric | None = None  # type: ignore[assignment]
    """Score by which the best weights are chosen: accuracy, the share of texts with the right label
    (with --multi-label: with exactly the right ones); macro_f1, the mean F1 of the classes, in
    which rare classes count as much as frequent ones; micro_f1, F1 over all decisions; or
    matthews_correlation, the correlation with the right labels, in which guessing gets 0. By
    default accuracy, with --multi-label micro_f1."""
    cell: Advanced[Cell | None] = None
    """Train a new LSTM or GRU, which reads texts both ways, instead of a pre-trained model. --model
    then names a folder with a vocabulary: of `bertsmith tokenizer train`, a corpus or a model."""
    preset: Advanced[Preset | None] = None
    """Size of the network of --cell: layers and width are those of a BERT of this size. By default
    tiny."""
    pooling: Advanced[RecurrentPooling | None] = None
    """Vector of a text that an LSTM or GRU classifies by: max, the maximum of each number over the
    tokens; or last, the state after the whole text. By default max."""
    columns: Columns = field(default_factory=Columns)
    multi_label: bool = False
    """Give a text several labels, or none. Each label is an independent yes or no."""
    label_separator: Advanced[str] = ","
    """Separator between the labels of a text, with --multi-label. A JSON list needs none."""
    threshold: Advanced[float] = 0.5
    """Least probability of a predicted label, with --multi-label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold < 1:
            raise SettingError("threshold", self.threshold, "above 0, below 1")
        check_label_separator(self.label_separator)
        if not self.multi_label and (changed := self.changed_options(OF_MULTI_LABEL)):
            raise ConfigError(
                f"{', '.join(map(option, changed))}: read only with {option('multi_label', True)}. "
                f"Give that, too; or leave out {', '.join(map(option, changed))}, and a text has "
                "one label."
            )
        check_choice(option("head"), self.head, get_args(Head))
        self._check_corpus()
        self._check_minutes()
        unused = UNUSED_OPTIONS[self.head]
        checked_elsewhere = ("corpus", "minutes")  # above, with messages of their own
        self._check_unused([name for name in unused if name not in checked_elsewhere])
        if self.average and self.seeds is None:
            raise ConfigError(
                f"{option('average', True)} needs several models. Give {option('seeds', 3)}, too."
            )
        check_choice(option("cell"), self.cell or "lstm", get_args(Cell))
        check_choice(option("preset"), self.preset or "tiny", get_args(Preset))
        check_choice(option("pooling"), self.pooling or "max", get_args(RecurrentPooling))
        if self.cell is None and self.preset is not None:
            raise ConfigError(
                f"{option('preset')}: found {self.preset}, but {option('model')} has a size of its "
                f"own. Leave it out, or give {option('cell', 'lstm')} for a new network."
            )
        if self.cell is not None and self.from_scratch:
            raise ConfigError(
                f"{option('from_scratch', True)} has no use beside {option('cell')}, whose weights "
                "begin at random. Leave it out."
            )
        if self.head in ("contrastive", "auto") and self.batch_size == 1:
            raise SettingError(
                "batch_size", 1, f"2 or more with {option('head', self.head)}, which compares texts"
            )
        allowed = ("accuracy", "macro_f1", "micro_f1") if self.multi_label else get_args(Metric)
        if self.score_key not in allowed:
            raise SettingError("metric", self.metric, allowed)

    def _check_corpus(self) -> None:
        """Check that a corpus has a use.

        Raises:
            ConfigError: it has none.
        """
        if self.corpus is None:
            return
        is_averaged = self.head == "fine-tuned" and self.average
        if self.multi_label or not (self.head in CORPUS_HEADS or is_averaged):
            raise ConfigError(
                f"{option('corpus')} is read only with {option('head', 'linear')}, "
                f"{option('head', 'auto')} or {option('average', True)}, by which a text gets one "
                "label. Choose one of them, or leave it out."
            )
        if is_averaged and self.begins_at_random:
            cause = option("from_scratch", True) if self.from_scratch else option("cell")
            raise ConfigError(
                f"{option('corpus')}: a linear head reads the vectors of a pre-trained model, and "
                f"with {cause} there is none. Leave one of the two out."
            )

    def _check_minutes(self) -> None:
        """Check the budget of `--head auto`.

        Raises:
            ConfigError: a budget is given, but the head is another one.
            SettingError: the budget is not a finite number above 0.
        """
        if self.minutes is None:
            return
        if self.head != "auto":
            raise ConfigError(
                f"{option('minutes')} is the budget of {option('head', 'auto')}, which compares "
                f"heads. Choose this head, or leave {option('minutes')} out."
            )
        self.check_positive("minutes")

    def changed_options(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of those options, among `names`, whose values are not the defaults."""
        defaults = {each.name: each.default for each in fields(self)}
        return tuple(name for name in names if getattr(self, name) != defaults[name])

    def _check_unused(self, names: Sequence[str]) -> None:
        """Check that options which the head has no use for are left at their defaults.

        Raises:
            ConfigError: some are set; the message names them.
        """
        if changed := self.changed_options(names):
            they = "this option" if len(changed) == 1 else "these options"
            reason = f": {ONE_RUN[self.head]}" if set(changed) & set(OF_SERIES) else ""
            raise ConfigError(
                f"{option('head', self.head)} has no use for {', '.join(map(option, changed))}"
                f"{reason}. Leave {they} out, or choose {option('head', 'fine-tuned')}."
            )

    def with_head(self, head: str) -> Self:
        """Return the settings of a run with this head; options that it does not use get defaults.

        Fine-tuning without eval examples keeps the weights of its last step.
        """
        changes: dict[str, Any] = {
            each.name: each.default for each in fields(self) if each.name in UNUSED_OPTIONS[head]
        }
        changes["head"] = head
        if head == "fine-tuned" and self.eval == NOT_GIVEN:
            changes["eval"] = IN_MEMORY  # a placeholder, since this head needs eval examples
        return replace(self, **changes)

    def for_linear_head(self, out: Path) -> Self:
        """Return the settings of a linear head in the folder `out`, which may be replaced."""
        return replace(self.with_head("linear"), out=out, overwrite=True)

    def for_average(self, num_models: int) -> Self:
        """Return the settings of the average of fine-tuned models with different seeds.

        With a corpus, a linear head that learned from it is a part of the average, unless the
        models begin at random: such a head reads the vectors of a pre-trained model.
        """
        corpus = None if self.begins_at_random else self.corpus
        fine_tuned = self.with_head("fine-tuned")
        return replace(fine_tuned, seeds=num_models, average=True, corpus=corpus)

    def for_fold(self, out: Path) -> Self:
        """Return the settings of a training in a cross-validation, which writes a new folder.

        The training gets its eval examples, a part of the training examples, in memory. No service
        of `report_to` hears of it.
        """
        return replace(self, out=out, eval=IN_MEMORY, overwrite=False, resume=False, report_to=None)

    def for_one_run(self) -> Self:
        """Return the settings of a single run of a series, without an average."""
        corpus = self.corpus if self.head in CORPUS_HEADS else None  # else it is for the average
        return replace(self, seeds=None, folds=None, resume=False, average=False, corpus=corpus)

    @property
    def can_resume(self) -> bool:
        """Whether a stopped run can be resumed; a head that is fitted in seconds begins again."""
        return self.head not in FITTED_HEADS

    @property
    def begins_at_random(self) -> bool:
        """Whether no weight of `model` is used."""
        return self.from_scratch or self.cell is not None

    @property
    def needs_held_out(self) -> bool:
        """Whether eval examples choose the best weights; the other heads are fitted without."""
        return self.head == "fine-tuned"

    @property
    def sources(self) -> Sources:
        """The files of training and of eval examples; None for the second if there is none."""
        return self.train, None if self.eval == NOT_GIVEN else self.eval

    @property
    def score_key(self) -> str:
        """The key of the score that chooses the best weights, among the eval scores."""
        return self.metric or ("micro_f1" if self.multi_label else "accuracy")
