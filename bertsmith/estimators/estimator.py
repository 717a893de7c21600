"""The base of estimators: a task's settings with scikit-learn's methods.

`fit` calls the function of `bertsmith finetune TASK` with the same settings, and the rest is the
predictor of the folder that it writes. scikit-learn is not needed.
"""

import dataclasses
import difflib
import inspect
import os
import shutil
import sys
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from bertsmith.config import from_mapping
from bertsmith.data.encoded_texts import name_type
from bertsmith.data.text_files import IN_MEMORY, ExampleSource
from bertsmith.errors import ConfigError, InputError, Interrupted, TrainingError
from bertsmith.estimators.messages import PythonDisplay, not_fitted
from bertsmith.estimators.rows import (
    Row,
    as_named,
    as_source,
    label_name,
    peek,
    prediction_items,
)
from bertsmith.evaluation.evaluate import accumulate_examples
from bertsmith.finetuning.run import FineTuned, finetune
from bertsmith.finetuning.series import hold_out
from bertsmith.system.argument_names import as_arguments, in_python
from bertsmith.system.progress import showing_progress
from bertsmith.tasks.auto import load_predictor
from bertsmith.tasks.losses import BALANCED
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.scoring import Evaluation, MetricAccumulator
from bertsmith.tasks.settings import FinetuneSettings
from bertsmith.tasks.task import Task
from bertsmith.training.recorder import Callback

NOT_PARAMETERS = ("model", "train", "eval", "eval_limit", "seeds", "folds", "columns")
"""Settings that are arguments of `fit`, or that scikit-learn's own tools stand for."""


class Estimator(ABC):
    """An estimator of one task; arguments are options of `bertsmith finetune TASK`.

    Attributes:
        predictor_: the fitted model, as `bertsmith.load` gives it.
        result_: the report of the training; `print` shows it.
    """

    task: ClassVar[type[Task[Any, Any]]]
    kind: ClassVar[Literal["classifier", "regressor"] | None] = None
    """The type of estimator that scikit-learn takes it for."""
    labels_name: ClassVar[str] = "label"
    """The column that takes y where X is a table."""
    needs_labels: ClassVar[bool] = True
    names: ClassVar[Mapping[str, str]] = {}
    """The option of `columns` that renames each key of `_row`."""

    model: str | os.PathLike[str]
    out: str | os.PathLike[str] | None
    predictor_: Predictor[Any]
    result_: FineTuned

    def __init__(self, model: str | os.PathLike[str], **settings: Any) -> None:
        self.model = model
        for name, default in self._defaults().items():
            setattr(self, name, settings.pop(name, default))
        if settings:
            raise TypeError(self._unknown(next(iter(settings))))

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "task"):  # a base of several
            return
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in cls._defaults().items()
        ]
        model = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        cls.__signature__ = inspect.Signature([model, *named])  # type: ignore[attr-defined]

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        fields = {field.name: field for field in dataclasses.fields(cls.task.settings)}
        known = {
            name: field.default for name, field in fields.items() if name not in NOT_PARAMETERS
        }
        return {**known, "out": None}

    def _unknown(self, name: str) -> str:
        names = ["model", *self._defaults()]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(names)}."
        return f"{type(self).__name__}: there is no parameter '{name}'. {hint}"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in ("model", *self._defaults())}

    def set_params(self, **changes: Any) -> Self:
        """Set parameters; return the estimator.

        Raises:
            ConfigError: there is none of that name.
        """
        known = self.get_params()
        for name in changes:
            if name not in known:
                raise ConfigError(self._unknown(name))
        for name, value in changes.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name != "model" and value is not defaults[name] and value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join([repr(str(self.model)), *changed])})"

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any = None,
        *,
        eval: Any = 0.1,  # noqa: A002 - the option's name
        show_progress: bool = True,
        callbacks: Sequence[Callback] = (),
        **columns: Any,
    ) -> Self:
        """Train on labelled examples; return the estimator.

        Args:
            X: texts, or what else the task reads, as a list, an array or a column; or a table
                (pandas, polars, pyarrow, datasets, a dict of columns), rows (a list of dicts) or
                the path of a file.
            y: the labels; None where X holds them.
            eval: examples to choose the best weights by: a share of X, drawn with `seed` so that
                each label keeps its own; or a path, a table or rows; or a tuple (X, y).
            show_progress: show the run, and its scores at the end, on standard error.
            callbacks: receive the entries of the run.
            columns: options for reading a table or file, such as text_column and label_column;
                `predict` and `score` read by them, too.

        Raises:
            InputError: the examples cannot be read as asked; names the row.
            ConfigError: a parameter that cannot be met, or an `out` that holds an earlier run.
            CheckpointError: `model` is no model's folder.
            KeyboardInterrupt: Ctrl-C; with `out`, a checkpoint was saved, from which `resume=True`
                goes on.
        """
        with in_python():
            self._settings(columns)  # refused before anything is read
            train = self._source(X, y, columns)
            labels = self._look_at_labels(train, y, columns)
            is_share = isinstance(eval, Real) and not isinstance(eval, bool)
            held_out = train if is_share else self._held_out(eval, columns)
            folder = TemporaryFolder() if self.out is None else None
            settings = self._settings(
                columns,
                train=train if isinstance(train, Path) else IN_MEMORY,
                eval=held_out if isinstance(held_out, Path) else IN_MEMORY,
                out=Path(self.out or ".") if folder is None else folder.path / "model",
            )
            dataset = self.task.read(settings, (train, None if is_share else held_out))
            if is_share:
                dataset = hold_out(dataset, eval, settings.seed)
            with (
                showing_progress() if show_progress else nullcontext(),
                PythonDisplay() if show_progress else nullcontext() as display,
            ):
                try:
                    result = finetune(
                        self.task,
                        settings,
                        [*([display] if display else []), *callbacks],
                        "the same call with resume=True",
                        dataset=dataset,
                    )
                except Interrupted as error:  # scikit-learn's searches go on after an Exception
                    lost = "fit: stopped. Nothing is kept without out=. Pass it to resume later."
                    raise KeyboardInterrupt(lost if folder else as_arguments(str(error))) from None
                except TrainingError as error:
                    if folder:  # in which the file is removed
                        lost = f" (all in {settings.out / 'failure.json'})"
                        error.args = (str(error).replace(lost, ""),)
                    raise
            start, notes = as_arguments(result.start_note), map(as_arguments, result.notes)
            result = dataclasses.replace(result, start_note=start, notes=tuple(notes))
            if show_progress:
                lines = str(result).split("\n")
                kept = [line for line in lines if folder is None or str(folder.path) not in line]
                print("\n".join(kept), file=sys.stderr)
            self._take(folder, settings)
        self.result_ = result
        self._columns = columns
        self._note_labels(labels)
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
        **columns: Any,
    ) -> Any:
        """Predict each item of X, in order, a portion of `batch_size` at a time.

        X is as in `fit`, without labels; a file is named by a `pathlib.Path`.
        """
        return self._answers(
            self._predictions(X, columns, batch_size=batch_size, show_progress=show_progress)
        )

    @abstractmethod
    def _answers(self, predictions: Iterator[Any]) -> Any:
        """Return the answers of predictions as `predict` gives them."""

    def score(self, X: Any, y: Any = None, **columns: Any) -> float:  # noqa: N803
        """Return the score of `metric` on labelled examples, which are as in `fit`.

        Raises:
            InputError: an example cannot be read, or has a label that the model does not know.
        """
        with in_python():
            figures = self._accumulate(X, y, columns)[0].figures()
            return figures[self._settings(columns).figure]

    def evaluate(self, X: Any, y: Any = None, **columns: Any) -> Evaluation:  # noqa: N803
        """Return the report of `bertsmith evaluate` on labelled examples, which are as in `fit`.

        Raises:
            InputError: as `score`.
        """
        with in_python():
            accumulator, num_skipped = self._accumulate(X, y, columns)
            return accumulator.result(num_skipped)

    def save(self, out: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted model's folder, which `bertsmith.load` opens.

        Raises:
            ConfigError: something stands there.
        """
        return self._fitted.save(Path(out), overwrite=overwrite)

    @property
    def _fitted(self) -> Predictor[Any]:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        return self.predictor_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        # scikit-learn calls this, so it is there; for everybody else it is an extra.
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type=self.kind,
            target_tags=TargetTags(required=self.needs_labels),
            classifier_tags=ClassifierTags() if self.kind == "classifier" else None,
            regressor_tags=RegressorTags() if self.kind == "regressor" else None,
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
            no_validation=True,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the predictor, with the files of its folder."""
        state = dict(vars(self))
        if (predictor := state.pop("predictor_", None)) is not None:
            with tempfile.TemporaryDirectory() as place:
                folder = predictor.save(Path(place) / "model")
                files = [path for path in folder.rglob("*") if path.is_file()]
                state["_files"] = {str(p.relative_to(folder)): p.read_bytes() for p in files}
        return state

    @in_python()
    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        if (files := vars(self).pop("_files", None)) is not None:
            folder = TemporaryFolder()
            for name, content in files.items():
                path = folder.path / "model" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self._take(folder, self._settings({}, out=folder.path / "model"))

    def _take(self, folder: "TemporaryFolder | None", settings: FinetuneSettings) -> None:
        """Load the model of `settings.out`; a temporary `folder` lasts as long as it."""
        self.predictor_ = load_predictor(
            settings.out, device=settings.device, precision=settings.precision
        )
        # Until it is called, a finalizer holds its arguments.
        weakref.finalize(self.predictor_.loaded.folder, lambda kept: None, folder)

    def _settings(self, columns: Mapping[str, Any], **paths: Path) -> Any:
        if "sample_weight" in columns:
            raise ConfigError(
                "sample_weight: examples have no weights of their own. Leave it out; "
                "TextClassifier(…, class_weights=…) weighs labels."
            )
        given = {name: _plain(value) for name, value in self.get_params().items()}
        places = {"train": IN_MEMORY, "eval": IN_MEMORY, "out": given["out"] or IN_MEMORY, **paths}
        if not isinstance(model := given["model"], str | os.PathLike):
            raise ConfigError(
                f"model: found {name_type(model)}. Give the folder of a model, what pretrain "
                'returned, or "org/name" on the hub.'
            )
        values = {**given, "model": os.fspath(model), **places, "columns": columns}
        return from_mapping(self.task.settings, values, type(self).__name__)

    def _source(self, X: Any, y: Any, columns: Mapping[str, Any]) -> Any:  # noqa: N803
        def build(item: Any, label: Any) -> Row:
            if isinstance(item, Mapping):
                name = str(columns.get("label_column") or self.labels_name)
                return {**item, **self._label_cells(item, label, name)}
            row = self._row(item, label)
            return {columns.get(self.names.get(name, "")) or name: row[name] for name in row}

        return as_source(X, y, build, unlabelled=not self.needs_labels)

    def _held_out(self, given: Any, columns: Mapping[str, Any]) -> Any:
        if given is None or isinstance(given, bool):
            raise ConfigError(
                f"eval: found {given}; allowed are a share such as 0.1, a file or table, or a "
                "tuple (X, y). The best weights are chosen by these examples."
            )
        items, labels = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        try:
            return self._source(items, labels, columns)
        except InputError as error:
            raise InputError(f"eval: {error}") from None

    @abstractmethod
    def _row(self, item: Any, label: Any) -> Row:
        """Return an item and its label as a row with the usual names of columns."""

    def _label_cells(self, row: Mapping[str, Any], label: Any, name: str) -> Row:
        """Return the cells that a label adds to a table's row."""
        return {name: label}

    def _look_at_labels(
        self, source: ExampleSource, y: Any, columns: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what `_note_labels` will need of the labels as they were given."""
        return {}

    def _note_labels(self, given: Mapping[str, Any]) -> None:  # noqa: B027 - most note nothing
        """Note the labels of the fitted model."""

    def _predictions(self, given: Any, columns: Mapping[str, Any], **how: Any) -> Iterator[Any]:
        """Return predictions of texts, tables, rows or a file, made in bounded memory."""
        predictor = self._fitted
        with in_python():
            if isinstance(given, str):
                raise InputError(
                    f"X: found the string '{given[:40]}'. Give a list of texts, such as "
                    "[text]; or pathlib.Path(...) for a file."
                )
            given = peek(given)
            named = as_named(given, "X")
            if named is None:
                examples: Iterable[Any] = prediction_items(given)
            else:
                # A row that was left out would move the answers of all behind it.
                known = {k: v for k, v in self._columns.items() if k != "skip_incomplete"}
                options = self._settings({**known, **columns}).columns
                examples = predictor.definition.reader(named, options, labelled=False)
        return (found for _, found in predictor.iter_predictions(examples, **how))

    def _accumulate(
        self, given: Any, labels: Any, columns: Mapping[str, Any]
    ) -> tuple[MetricAccumulator, int]:
        predictor = self._fitted
        columns = {**self._columns, **columns}
        source = self._source(given, labels, columns)
        options = self._settings(columns).columns
        task = predictor.definition.with_columns(options)
        reader = task.reader(source, options, labelled=True)
        place = source if isinstance(source, Path) else IN_MEMORY
        predictor = predictor.with_definition(task)
        return accumulate_examples(predictor, reader, place), reader.num_skipped


class TemporaryFolder:
    """A folder that is removed with this object, at the latest when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="bertsmith-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # a forked one does not own it
        shutil.rmtree(path, ignore_errors=True)


def _plain(value: Any) -> Any:
    """Return a parameter as recipes have it: weights as pairs."""
    if isinstance(value, Mapping):
        return [f"{label_name(label)}={weight}" for label, weight in value.items()]
    return [value] if isinstance(value, str) and value == BALANCED else value
