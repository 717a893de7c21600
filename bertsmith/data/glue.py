"""Find the GLUE benchmark's tasks and files on disk, and write submissions.

Files are those of the benchmark's own download (Wang et al. 2019, gluebenchmark.com): tsv whose
quotes are plain characters, labels for training and development, none for test. A submission is one
file per task with the columns `index` and `prediction`, labels by the names of the training file.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.columns import Columns
from bertsmith.data.examples import Example
from bertsmith.data.records import RecordReader
from bertsmith.data.row_texts import Record
from bertsmith.errors import ConfigError, InputError, option
from bertsmith.errors.option_names import options_in
from bertsmith.system.files import atomic_write

Score = Literal["accuracy", "f1", "matthews_correlation", "pearson", "spearman"]
"""The benchmark's official scores; `f1` is that of the label `1`."""


HIGHEST_SIMILARITY = 5.0
"""Maximum of STS-B's scores and predictions; the minimum is 0."""


@dataclass(frozen=True)
class GlueTask:
    """Task of the benchmark.

    Attributes:
        name: its name in the benchmark, which is also the name of its folder.
        columns: columns of texts and labels in the files for training and development.
        scores: the official metrics; a task's score is their mean.
        kind: whether a label (`classify`) or a number (`regress`) is predicted.
        dev: eval files, each with its name in tables of results; by default dev.tsv.
        tests: files without labels, each with the name of its file in a submission; paths begin at
            the folder of all tasks. By default test.tsv in the task's own folder.
        test_texts: columns of the texts in `tests`, where their names differ from training.
    """

    name: str
    columns: Columns
    scores: tuple[Score, ...]
    kind: Literal["classify", "regress"] = "classify"
    dev: tuple[tuple[str, str], ...] = ()
    tests: tuple[tuple[str, str], ...] = ()
    test_texts: tuple[str, ...] = ()

    @property
    def test_columns(self) -> tuple[str, ...]:
        """Columns of the texts in files to predict, two for pairs."""
        names = (self.columns.text_column, self.columns.pair_column)
        return self.test_texts or tuple(filter(None, names))


def pair_columns(first: str, second: str, label: str) -> Columns:
    """Return the columns of a task of pairs: the names of both texts and of the label."""
    # QQP has rows that lack a cell, which the benchmark's own readers leave out.
    return Columns(
        text_column=first,
        pair_column=second,
        label_column=label,
        header="yes",
        skip_incomplete=True,
    )


COLUMN_OPTIONS = {"index", "columns", *(field.name for field in fields(Columns))}
"""Options that messages about a file's columns name. `bertsmith glue` has none of them, since the
benchmark's files have known columns."""
SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")
MNLI_FILES = "MNLI: dev_matched.tsv or dev_mismatched.tsv"
GLUE_TASKS = (
    GlueTask(
        "CoLA",
        Columns(text_column="4", label_column="2", header="no"),
        ("matthews_correlation",),
        test_texts=("sentence",),
    ),
    GlueTask(
        "SST-2",
        Columns(text_column="sentence", label_column="label", header="yes"),
        ("accuracy",),
    ),
    GlueTask("MRPC", pair_columns("#1 String", "#2 String", "Quality"), ("accuracy", "f1")),
    GlueTask(
        "STS-B",
        pair_columns("sentence1", "sentence2", "score"),
        ("pearson", "spearman"),
        kind="regress",
    ),
    GlueTask("QQP", pair_columns("question1", "question2", "is_duplicate"), ("accuracy", "f1")),
    GlueTask(
        "MNLI",
        pair_columns("sentence1", "sentence2", "gold_label"),
        ("accuracy",),
        dev=(("dev_matched.tsv", "MNLI-m"), ("dev_mismatched.tsv", "MNLI-mm")),
        tests=(
            ("MNLI/test_matched.tsv", "MNLI-m"),
            ("MNLI/test_mismatched.tsv", "MNLI-mm"),
            # The diagnostic set has no training data: the model for MNLI predicts its labels. The
            # file is in one of these two folders.
            ("AX/AX.tsv", "AX"),
            ("diagnostic/diagnostic.tsv", "AX"),
        ),
    ),
    GlueTask("QNLI", pair_columns("question", "sentence", "label"), ("accuracy",)),
    GlueTask("RTE", pair_columns("sentence1", "sentence2", "label"), ("accuracy",)),
    GlueTask("WNLI", pair_columns("sentence1", "sentence2", "label"), ("accuracy",)),
)
"""Tasks in the order of the paper's table 1."""


@dataclass(frozen=True)
class GlueTaskFiles:
    """The files of a task: `root` is the folder of all tasks, `folder` the task's own."""

    task: GlueTask
    root: Path
    folder: Path

    @property
    def train(self) -> Path:
        return self.folder / "train.tsv"

    def dev_files(self) -> list[tuple[Path, str]]:
        """List the eval files that exist; the weights with the best score on the first are kept."""
        listed = self.task.dev or (("dev.tsv", self.task.name),)
        files = [(self.folder / file, name) for file, name in listed]
        return [(path, name) for path, name in files if path.is_file()]

    def test_files(self) -> list[tuple[Path, str]]:
        """List the files with rows to predict that exist."""
        paths: dict[str, Path] = {}
        usual = (f"{self.task.name}/test.tsv", self.task.name)
        for file, name in self.task.tests or (usual,):
            folder, _, file_name = file.partition("/")
            # The task's own folder may have another spelling, such as sst2.
            directory = self.folder if folder == self.task.name else self.root / folder
            if (directory / file_name).is_file():
                paths.setdefault(name, directory / file_name)
        return [(path, name) for name, path in paths.items()]


def find_tasks(root: Path, names: Sequence[str] = ()) -> list[GlueTaskFiles]:
    """Find the tasks in a folder, all or those named, in the benchmark's order.

    A task is there if a folder of its name (`SST-2`, also `sst2`) has train.tsv and an eval file.

    Raises:
        InputError: no task is there, or one that was named is missing.
        ConfigError: a name that no task of the benchmark has.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. Give the one that holds CoLA, RTE and so on.")
    folders = {task_key(entry.name): entry for entry in sorted(root.iterdir()) if entry.is_dir()}
    tasks: dict[str, GlueTaskFiles] = {}
    for task in GLUE_TASKS:
        if task_key(task.name) in folders:
            files = GlueTaskFiles(task, root, folders[task_key(task.name)])
            if files.train.is_file() and files.dev_files():
                tasks[task.name] = files
    requested = check_task_names(names)
    absent = [name for name in requested if name not in tasks]
    if absent:
        mnli_files = f" ({MNLI_FILES})" if "MNLI" in absent else ""
        raise InputError(
            f"{root}: no {', '.join(absent)} with train.tsv and dev.tsv{mnli_files}. Found: "
            f"{', '.join(tasks) or 'no task'}. Add it, or leave it out of {option('tasks')}."
        )
    if not tasks:
        raise InputError(
            f"{root}: none of GLUE's tasks. Looked for the folders "
            f"{', '.join(task.name for task in GLUE_TASKS)}, each with train.tsv and dev.tsv "
            f"({MNLI_FILES}). Give the folder that holds them."
        )
    return [files for name, files in tasks.items() if not requested or name in requested]


def check_task_names(names: Sequence[str]) -> list[str]:
    """Return names of tasks in the benchmark's spelling; refuse unknown ones."""
    names_by_key = {task_key(task.name): task.name for task in GLUE_TASKS}
    for name in names:
        if task_key(name) not in names_by_key:
            raise ConfigError(
                f"{option('tasks')}: '{name}' is none of GLUE's tasks. Choose from: "
                f"{', '.join(names_by_key.values())}."
            )
    return [names_by_key[task_key(name)] for name in names]


def task_key(name: str) -> str:
    """Return a task's name without case and dashes: `sst2` for both `SST-2` and `sst2`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@contextmanager
def refusing_other_files() -> Iterator[None]:
    """Advise, in errors of the block, to take the benchmark's files, in place of column options."""
    try:
        yield
    except InputError as error:
        sentences = SENTENCE_END.split(error.message)
        kept = [text for text in sentences if not _names_column_option(text)]
        if len(kept) == len(sentences):
            raise
        advice = "Fix the file, or copy it from the benchmark's own download (gluebenchmark.com)."
        raise InputError(" ".join([*kept, advice])) from error


def _names_column_option(text: str) -> bool:
    return any(named.name in COLUMN_OPTIONS for named in options_in(text))


def iter_test_examples(path: Path, columns: tuple[str, ...]) -> Iterator[Example]:
    """Yield each test row as an example, with the row's index in place of a label.

    A submission names the rows by these indices, which are in the first column. A text may be
    empty, since every row needs a prediction.

    Raises:
        InputError: the file is not a table with these columns.
    """
    specs = [
        # The first column. The command has no options to choose columns.
        ColumnSpec(name="index", option="", chosen="1", usual_names=()),
        *(
            ColumnSpec(name, option="", chosen=name, usual_names=(), may_be_empty=True)
            for name in columns
        ),
    ]

    def parse(row: int, record: Record) -> Example:
        # A record has no text where the cell is empty.
        text, *pair = ("".join(record[name]) for name in columns)
        return Example(text, next(iter(pair), None), record["index"][0], row)

    options = Columns(header="yes")
    # can_skip: the command has no option to skip rows.
    return iter(RecordReader(path, options, lambda column_names: specs, parse, can_skip=False))


def write_submission(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write a submission file: index and prediction of each test row.

    Raises:
        InputError: the file cannot be written.
    """
    with atomic_write(path, "w") as file:
        file.write("index\tprediction\n")
        for index, prediction in rows:
            file.write(f"{index}\t{prediction}\n")


def format_similarity(number: float) -> str:
    """Format a prediction of STS-B, clipped to the range of its scores."""
    return f"{min(max(number, 0.0), HIGHEST_SIMILARITY):.3f}"
