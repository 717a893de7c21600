"""Settings of `bertsmith glue`, which runs the GLUE benchmark."""

from dataclasses import dataclass
from pathlib import Path

from bertsmith.errors import SettingError
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Compute
from bertsmith.tasks.settings.finetune import ClsAttention, FinetuneSettings


@dataclass(frozen=True)
class GlueSettings(Compute):
    """Settings of `bertsmith glue`."""

    model: Path
    """Folder of the pre-trained model."""
    data: Path
    """Folder with the benchmark's own folders (CoLA, SST-2, RTE, …), each with train.tsv and
    dev.tsv (MNLI with dev_matched.tsv and dev_mismatched.tsv)."""
    out: Path
    """Folder for the runs, the table and the files for a submission. The same command resumes a
    stopped benchmark: complete runs are not repeated. The weights of each task's best seed are
    kept."""
    tasks: tuple[str, ...] = ()
    """Tasks to run, such as RTE MRPC; by default all tasks in the data."""
    seeds: int = 3
    """Number of runs per task, each with another seed."""
    sample: int | None = None
    """Number of examples of each training file to use, drawn at random by the seed; all by default.
    (STS-B is sorted by kind of text, so its first rows are not representative.)"""
    max_length: int | None = None
    """Maximum sequence length in tokens. By default the model's maximum."""
    epochs: float | None = None
    """Number of passes over the examples. By default 3."""
    steps: int | None = None
    """Number of updates of the weights, instead of --epochs."""
    batch_size: int = FinetuneSettings.batch_size
    """Batch size: examples per update."""
    learning_rate: float | None = None
    """Peak learning rate: how far an update moves the weights. By default it depends on the model's
    width."""
    cls_attention: ClsAttention = FinetuneSettings.cls_attention
    """Attention of [CLS] at the start; see `bertsmith finetune classify --help`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_upper_limits(self)
        if self.seeds < 1:
            raise SettingError("seeds", self.seeds, "1 or more")
