"""The base of estimators: a task's settings with scikit-learn's methods.

`fit` calls the function that `bertsmith finetune TASK` calls, with the same settings. The other
methods use a predictor, the model of a folder with its task, which is loaded from the folder that
`fit` writes. A *source* of examples is the path of a file, a table, or rows in memory; the *reading
options* say how it is read, such as `text_column`. scikit-learn is not needed.
"""

import copy
import dataclasses
import difflib
import inspect
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from bertsmith.config import from_mapping, to_jsonable
from bertsmith.data.encoded_texts import name_type
from bertsmith.data.label_values import label_name
from bertsmith.data.table_rows import Row, as_named, check_names_file
from bertsmith.data.tables import check_delimiter, check_has_columns
from bertsmith.data.tagged_files import check_has_word_column
from bertsmith.data.text_files import IN_MEMORY, ExampleSource
from bertsmith.errors import (
    CheckpointError,
    ConfigError,
    InputError,
    Interrupted,
    NotFiniteError,
    SettingError,
    as_arguments,
)
from bertsmith.estimators.not_fitted import not_fitted
from bertsmith.estimators.rows import as_source, prediction_items, wrap_dicts
from bertsmith.estimators.trained_settings import read_trained_settings
from bertsmith.estimators.training_views import default_verbosity, training_view
from bertsmith.finetuning.fine_tuned import FineTuned
from bertsmith.finetuning.folds import hold_out
from bertsmith.finetuning.heads import training_function_for
from bertsmith.model.saving import write_task_settings
from bertsmith.system.paths import check_outside
from bertsmith.system.temporary_folder import temporary_folder
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.predictor import Predictor, accumulate_rows
from bertsmith.tasks.scoring import Evaluation, MetricAccumulator
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import Task, named_settings
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.callback import Callback

NOT_PARAMETERS = ("model", "train", "eval", "eval_limit", "seeds", "folds", "average", "columns")
"""Settings that are not keyword parameters. `model` is the first parameter, `fit` takes the data
and the columns, and scikit-learn has tools of its own in place of `seeds` and `folds`."""
NOT_RESTORED = ("out", "resume", "overwrite", "verbose", "threads")
"""Parameters that `load` does not restore: they are about one run or machine, not the model."""
OWN_PARAMETERS: Mapping[str, Any] = {"out": None, "verbose": None}
"""Defaults of the parameters that the command lacks, or for which it has another default."""


class Estimator(ABC):
    """An estimator of one task; its parameters are options of `bertsmith finetune TASK`.

    Attributes:
        predictor_: the fitted model, as `bertsmith.load` returns it. Its `definition` is the task
            of the model, with its labels.
        result_: the report of the training, which `print` shows.
    """

    task: ClassVar[type[Task[Any, Any]]]
    kind: ClassVar[Literal["classifier", "regressor"] | None] = None
    """The kind of estimator in scikit-learn's terms."""
    labels_name: ClassVar[str] = "label"
    """Name of the column for y if X is a table or rows, unless `label_column` is passed."""
    needs_labels: ClassVar[bool] = True
    """Whether each example needs a label to train on."""
    column_options: ClassVar[Mapping[str, str]] = {}
    """For each key of the rows that `_row` builds, the reading option that names its column, such
    as `text_column`."""

    model: str | os.PathLike[str]
    out: str | os.PathLike[str] | None
    limit: int | None
    verbose: int | None
    _columns: Mapping[str, Any] = {}
    """The reading options that were passed to `fit`, such as `text_column`."""
    _is_clone = False
    """Whether scikit-learn cloned the estimator, as it does in a search of parameters. A clone
    shows nothing by default."""
    _is_loaded = False
    """Whether `load` restored the parameters from an earlier training."""
    predictor_: Predictor[Any]
    result_: FineTuned

    def __init__(self, model: str | os.PathLike[str], **settings: Any) -> None:
        self.model = model
        for name, default in self._defaults().items():
            setattr(self, name, settings.pop(name, default))
        if settings:
            raise TypeError(self._describe_unknown(next(iter(settings))))

    def __init_subclass__(cls) -> None:
        """Give each subclass a signature with its parameters, which editors show."""
        if not hasattr(cls, "task"):  # an abstract base, such as TextEstimator
            return
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in cls._defaults().items()
        ]
        model = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        cls.__signature__ = inspect.Signature([model, *named])  # type: ignore[attr-defined]

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the defaults of the keyword parameters, by name."""
        defaults = {
            field.name: field.default
            for field in dataclasses.fields(cls.task.settings)
            if field.name not in NOT_PARAMETERS
        }
        return {**defaults, **OWN_PARAMETERS}

    def _describe_unknown(self, name: str) -> str:
        """Return the message about a parameter that the estimator lacks."""
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
            ConfigError: there is no parameter of that name.
        """
        parameters = self.get_params()
        for name in changes:
            if name not in parameters:
                raise ConfigError(self._describe_unknown(name))
        for name, value in changes.items():
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an estimator with the same parameters that is not fitted, for scikit-learn."""
        clone = type(self)(**copy.deepcopy(self.get_params()))
        clone._is_clone = True
        return clone

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str = "auto",
        precision: str = "auto",
        max_length: int | None = None,
    ) -> Self:
        """Load a fitted estimator from a model's folder.

        >>> classifier = TextClassifier.load("runs/films")  # doctest: +SKIP
        >>> classifier.score(texts, labels)  # doctest: +SKIP
        0.91

        The parameters are restored from the training, if the folder records them. `model` becomes
        the folder that the training started from, so that `fit` repeats it; if no such folder
        exists, `model` becomes `path`.

        Args:
            path: the folder, or "org/name" on the Hugging Face hub.
            device: auto, cpu, cuda, cuda:1 or mps.
            precision: auto, fp32, bf16 or int8.
            max_length: maximum length of texts in tokens; by default as in training.

        Raises:
            CheckpointError: the folder is incomplete, or its model was trained for another task.
            ConfigError: this machine does not have the device or precision.
        """
        predictor = load_predictor(
            Path(path), device=device, precision=precision, max_length=max_length
        )
        name = predictor.definition.name
        if name != cls.task.name:
            raise CheckpointError(
                f"{path}: the task of this model is '{name}', but {cls.__name__} is for "
                f"'{cls.task.name}'. Open it with bertsmith.load, or with the estimator of its "
                "task."
            )
        folder = predictor.loaded.folder.path
        trained_settings = read_trained_settings(folder)
        columns = trained_settings.pop("columns", None) or {}
        base_model = trained_settings.pop("model", None)
        has_base_model = isinstance(base_model, str) and Path(base_model).is_dir()
        settings = {
            name: trained_settings[name]
            for name, default in cls._defaults().items()
            if name not in NOT_RESTORED
            and name in trained_settings
            and trained_settings[name] != to_jsonable(default)
        }
        settings |= {"device": device, **cls._parameters_of(predictor.definition)}
        if precision != "int8":  # int8 is only for predictions; `fit` cannot train with it
            settings |= {"precision": precision}
        if max_length is not None:
            settings |= {"max_length": max_length}
        estimator = cls(base_model if has_base_model else path, **settings)
        estimator.predictor_ = predictor
        estimator._is_loaded = True
        # Leave out defaults, and options of a recipe that `fit` does not take.
        estimator._columns = {
            name: value
            for name, value in columns.items()
            if value != getattr(cls.task.columns(), name, value)
        }
        estimator._set_fitted_attributes()
        return estimator

    @classmethod
    def _parameters_of(cls, definition: Task[Any, Any]) -> Mapping[str, Any]:
        """Return the parameters whose values the task of a fitted model determines."""
        return {}

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            # Compared as text, since two arrays have no single truth value.
            if name != "model" and repr(value) != repr(defaults[name])
        ]
        model = os.fspath(self.model) if isinstance(self.model, os.PathLike) else self.model
        return f"{type(self).__name__}({', '.join([repr(model), *changed])})"

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any = None,
        *,
        eval: Any = 0.1,  # noqa: A002 - the option's name
        limit: int | None = None,
        show_progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
        **columns: Any,
    ) -> Self:
        """Train on labelled examples; return the estimator.

        Args:
            X: the items that the task reads, such as texts, as a list, an array or a column; or a
                table (pandas, polars, pyarrow, datasets, a dict of columns), rows (a list of dicts)
                or the path of a file.
            y: the labels; None if X holds them.
            eval: examples by which the best weights are chosen: a share of X, drawn with `seed`
                so that each label has the same share; or a path, a table or rows; or a tuple
                (X, y). None trains on all of X: nothing is scored, and the weights of the last
                step are kept. With a `head` other than "fine-tuned", such as "linear" or "auto", a
                share is ignored, as if it were None.
            limit: use only this many examples of X, the first ones; by default the parameter
                `limit`.
            show_progress: show the run, and its scores at the end; by default as `verbose` says.
            callbacks: objects that receive each entry of the run's journal.
            columns: options for reading a table or file, such as text_column and label_column;
                `predict` and `score` use them, too.

        Raises:
            InputError: an example cannot be read; the message names its row if it has one.
            ConfigError: the value of a parameter is not allowed, or `out` holds an earlier run.
            CheckpointError: `model` is not the folder of a model.
            TrainingError: the training had to end, for example because the loss became NaN.
            KeyboardInterrupt: Ctrl-C was pressed; if `out` is set, a checkpoint was saved, from
                which `resume=True` continues.
        """
        # Refuses impossible settings before any example is read. The settings that are used are
        # built below, with the files.
        self._settings(columns)
        verbosity = self._verbosity(show_progress)
        train = self._source(X, y, columns)
        labels = self._describe_labels(train, y, columns)
        is_share = isinstance(eval, Real) and not isinstance(eval, bool)
        has_eval_data = eval is not None and not is_share
        # Settings must name eval examples. Without eval data they name X, and `read` gets None.
        held_out = self._eval_source(eval, columns) if has_eval_data else train
        folder = TemporaryFolder() if self.out is None else None
        settings = self._settings(
            columns,
            train=train if isinstance(train, Path) else IN_MEMORY,
            eval=held_out if isinstance(held_out, Path) else IN_MEMORY,
            out=Path(self.out or ".") if folder is None else folder.path / "model",
            limit=self.limit if limit is None else limit,
        )
        if folder is None:
            check_outside(settings.out, settings.model)
        check_delimiter(settings.columns, train, held_out)
        dataset = self.task.read(settings, (train, held_out if has_eval_data else None))
        if is_share and settings.needs_held_out:
            dataset = hold_out(dataset, eval, settings.seed)
        elif not has_eval_data:  # a task may have read X as eval examples, too
            dataset = dataclasses.replace(dataset, held_out=[])
        with training_view(verbosity) as view:
            try:
                result = training_function_for(settings)(
                    self.task,
                    settings,
                    [*view.callbacks, *callbacks],
                    resume_command="the same call with resume=True",
                    dataset=dataset,
                )
            # KeyboardInterrupt, since scikit-learn's searches would go on after an Exception.
            except Interrupted as error:
                message = "fit: stopped. Without out=, no run is kept; pass it to resume later."
                raise KeyboardInterrupt(message if folder else str(error)) from None
            except NotFiniteError as error:
                if folder:  # its file is in the temporary folder
                    raise error.without_file() from None
                raise
            result = result.with_notes(as_arguments)
            lines = str(result).split("\n")
            if folder is not None:  # the path of a temporary folder is of no use to the user
                lines = [line for line in lines if str(folder.path) not in line]
            view.show_report("\n".join(lines))
        self._load_fitted(folder, settings)
        self.result_ = result
        self._columns = columns
        self._set_label_fields(labels)
        self._set_fitted_attributes()
        return self

    def _verbosity(self, show_progress: bool | None) -> int:
        """Return how much `fit` shows: 0 nothing, 1 the run, 2 its details too."""
        if show_progress is not None:
            return int(show_progress)
        if self.verbose is not None:
            return int(self.verbose)
        return 0 if self._is_clone else default_verbosity()

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
        **columns: Any,
    ) -> Any:
        """Predict each item of X, in order.

        Args:
            X: as in `fit`, without labels.
            batch_size: number of items that are read and encoded at a time; 1,024 by default.
            show_progress: show a bar.
            columns: options for reading a table or file; by default those of `fit`.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError: an item cannot be read; the message names its position.
        """
        return self._convert_predictions(
            self._predictions(X, columns, batch_size=batch_size, show_progress=show_progress)
        )

    @abstractmethod
    def _convert_predictions(self, predictions: Iterator[Any]) -> Any:
        """Convert predictions to the values that `predict` returns."""

    def score(self, X: Any, y: Any = None, **columns: Any) -> float:  # noqa: N803
        """Compute the score called `metric` on labelled examples; X and y are as in `fit`.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError: an example cannot be read, or the model does not know its label.
            ConfigError: the examples have no such score, as pairs without y have no correlation.
        """
        scores = self._accumulate(X, y, columns)[0].compute_metrics()
        name = self._settings(columns).score_key
        if name not in scores:
            allowed = [score for score in scores if score != "loss"]
            advice = "These examples have no other scores. Choose one with set_params(metric=…)."
            raise SettingError("metric", name, allowed, advice)
        return scores[name]

    def evaluate(self, X: Any, y: Any = None, **columns: Any) -> Evaluation:  # noqa: N803
        """Return the report of `bertsmith evaluate` on labelled examples; X and y are as in `fit`.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError: an example cannot be read, or the model does not know its label.
        """
        accumulator, num_skipped = self._accumulate(X, y, columns)
        return accumulator.result(num_skipped)

    def save(self, out: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted model's folder, which `bertsmith.load` opens.

        Raises:
            NotFittedError: the estimator is not fitted.
            ConfigError: `out` holds files that are not a model's, or holds a model and `overwrite`
                is not set.
        """
        return self._fitted.save(Path(out), overwrite=overwrite)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the fitted model."""
        return self._fitted.tokenizer

    @property
    def _fitted(self) -> Predictor[Any]:
        """The fitted model; a NotFittedError is raised if there is none."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        return self.predictor_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this method, so it is installed here; elsewhere it may be missing.
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
        """Return the attributes, with the files of the model's folder in place of the predictor."""
        state = dict(vars(self))
        predictor = state.pop("predictor_", None)
        if predictor is not None:
            with temporary_folder() as directory:
                folder = predictor.save(directory / "model")
                files = [path for path in folder.rglob("*") if path.is_file()]
                state["_files"] = {str(p.relative_to(folder)): p.read_bytes() for p in files}
            state["_loading"] = self._loading_of(predictor)
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        loading = vars(self).pop("_loading", {})
        files = vars(self).pop("_files", None)
        if files is not None:
            folder = TemporaryFolder()
            for name, content in files.items():
                path = folder.path / "model" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            settings = self._settings({}, out=folder.path / "model")
            self._load_fitted(folder, settings, **loading)
            self._set_fitted_attributes()

    def _load_fitted(
        self, folder: "TemporaryFolder | None", settings: FinetuneSettings, **loading: Any
    ) -> None:
        """Load the model in `settings.out`, and keep a temporary `folder` as long as the model.

        Arguments in `loading`, such as `precision`, replace those of the settings.
        """
        self.predictor_ = self._open(settings.out, settings, **loading)
        # This finalizer does nothing, but its argument, the temporary folder, lives until it runs.
        weakref.finalize(self.predictor_.loaded.folder, lambda temporary: None, folder)

    def _open(self, folder: Path, settings: FinetuneSettings, **loading: Any) -> Predictor[Any]:
        """Load a model's folder with device and precision of the settings.

        Arguments of `load_predictor` in `loading` replace those of the settings.
        """
        options = {"device": settings.device, "precision": settings.precision}
        return load_predictor(folder, **{**options, **loading})

    def _loading_of(self, predictor: Predictor[Any]) -> dict[str, Any]:
        """Return the arguments with which a predictor was loaded, without the device.

        They may differ from the parameters: `load` takes the precision int8, with which `fit`
        cannot train, and `set_params` does not change a model that is already fitted.
        """
        loaded = predictor.loaded
        return {"precision": loaded.requested_precision, "max_length": loaded.requested_length}

    def _settings(self, columns: Mapping[str, Any], **replaced: Any) -> Any:
        """Build the task's settings from the parameters and the reading options `columns`.

        Args:
            replaced: settings that replace the value of a parameter, or that no parameter sets.
        """
        if "sample_weight" in columns:
            raise ConfigError(
                "sample_weight: examples have no weights of their own. Leave it out; "
                "TextClassifier(…, class_weights=…) gives weights to labels."
            )
        names_of_options = {field.name for field in dataclasses.fields(self.task.columns)}
        misplaced = sorted((columns.keys() - names_of_options) & self._defaults().keys())
        if misplaced:
            name = misplaced[0]
            raise ConfigError(
                f"{name}: found among the options for reading, and is a parameter. Give it to "
                f"{type(self).__name__}(…, {name}=…), or to set_params before fit."
            )
        parameters = {name: _as_in_recipe(value) for name, value in self.get_params().items()}
        if not isinstance(parameters.pop("verbose"), int | np.integer | None):
            raise ConfigError(
                f"verbose: found {name_type(self.verbose)}. Give 0 to show nothing, 1 to show the "
                "run, or 2 to show its details, too."
            )
        # IN_MEMORY stands for examples that are in memory, not in a file; also for an open `out`.
        paths = {"train": IN_MEMORY, "eval": IN_MEMORY, "out": parameters["out"] or IN_MEMORY}
        model = parameters["model"]
        if not isinstance(model, str | os.PathLike):
            raise ConfigError(
                f"model: found {name_type(model)}. Give the folder of a model, what pretrain "
                'returned, or "org/name" on the hub.'
            )
        values = {**parameters, "model": os.fspath(model), **paths, **replaced, "columns": columns}
        name = type(self).__name__
        # Python code may name a function, such as a loss; a recipe from elsewhere may not.
        return from_mapping(self.task.settings, values, name, may_name_code=True)

    def _source(self, X: Any, y: Any, columns: Mapping[str, Any]) -> Any:  # noqa: N803
        """Convert X and y to a source of examples: a path, a table or rows."""
        label_column = str(columns.get("label_column") or self.labels_name)

        def column_of(key: str) -> Any:
            return columns.get(self.column_options.get(key, "")) or key

        def build_row(item: Any, label: Any) -> Row:
            """Make a row from an item such as a text, or add the label to a row."""
            if isinstance(item, Mapping):
                return {**item, **self._label_cells(item, label, label_column)}
            return {column_of(key): cell for key, cell in self._row(item, label).items()}

        return as_source(
            X, y, build_row, unlabelled=not self.needs_labels, label_column=label_column
        )

    def _eval_source(self, eval_data: Any, columns: Mapping[str, Any]) -> Any:
        """Convert eval data, the argument `eval` of `fit`, to a source of examples."""
        if isinstance(eval_data, bool):
            raise ConfigError(
                f"eval: found {eval_data}. Give a share such as 0.1, a file or table, or a tuple "
                "(X, y), by which the best weights are chosen; or None to train on all of X."
            )
        items, labels = eval_data, None
        if isinstance(eval_data, tuple) and len(eval_data) == 2:
            items, labels = eval_data
        try:
            return self._source(items, labels, columns)
        except InputError as error:
            raise InputError(f"eval: {error.message}") from None

    @abstractmethod
    def _row(self, item: Any, label: Any) -> Row:
        """Return an item and its label as a row with the default column names.

        Raises:
            InputError: the item or the label does not have the form that the task reads.
        """

    def _label_cells(self, row: Mapping[str, Any], label: Any, name: str) -> Row:
        """Return the cells that a label adds to the row of a table, by their columns.

        `name` is the name of the column of labels.
        """
        return {name: label}

    def _describe_labels(
        self, source: ExampleSource, y: Any, columns: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the values of the task's fields that describe the labels, such as their type.

        By them, `predict` returns labels of the type that they had in y.
        """
        return {}

    def _set_label_fields(self, label_fields: Mapping[str, Any]) -> None:
        """Set the fields that describe the labels, in the fitted model and in its folder."""
        if label_fields:
            predictor = self._fitted
            definition: Any = dataclasses.replace(predictor.definition, **label_fields)
            self.predictor_ = predictor.with_definition(definition)
            write_task_settings(predictor.loaded.folder.path, named_settings(definition))

    def _set_fitted_attributes(self) -> None:  # noqa: B027 - most estimators have no such attributes
        """Set attributes of the estimator by the fitted model, such as `classes_`."""

    def _predictions(self, data: Any, columns: Mapping[str, Any], **options: Any) -> Iterator[Any]:
        """Iterate over the predictions for texts, a table, rows or a file, in bounded memory.

        `options` are `batch_size` and `show_progress`.
        """
        predictor = self._fitted
        # A skipped row would shift the predictions of all later rows.
        training_columns = {k: v for k, v in self._columns.items() if k != "skip_incomplete"}
        all_columns = {**training_columns, **columns}
        if all_columns:  # such as `repair` and `split` of a tagger, also for texts in memory
            reading = self._settings(all_columns).columns
            predictor = predictor.with_definition(predictor.definition.with_columns(reading))
        if isinstance(data, str):
            check_names_file(data)
            data = Path(data)
        data = wrap_dicts(data)
        source = as_named(data, "X")  # a file or a table; None for items such as texts
        if source is None:
            examples: Iterable[Any] = prediction_items(data)
        else:
            own_columns = self._settings(columns).columns  # those of this call alone
            check_delimiter(own_columns, source)
            check_has_columns(own_columns, source)
            check_has_word_column(own_columns, source)
            reading = self._settings(all_columns).columns
            examples = predictor.definition.reader(source, reading, labelled=False)
        return (prediction for _, prediction in predictor.iter_predictions(examples, **options))

    def _accumulate(
        self, data: Any, labels: Any, columns: Mapping[str, Any]
    ) -> tuple[MetricAccumulator, int]:
        """Accumulate the metrics of labelled examples; return also the number of skipped rows."""
        predictor = self._fitted
        all_columns = {**self._columns, **columns}
        source = self._source(data, labels, all_columns)
        check_delimiter(self._settings(columns).columns, source)
        return accumulate_rows(predictor, source, self._settings(all_columns).columns)


class TemporaryFolder:
    """A new folder for temporary files, deleted with this object or when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="bertsmith-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process does not own the folder
        shutil.rmtree(path, ignore_errors=True)


def _as_in_recipe(value: Any) -> Any:
    """Convert a parameter to its form in recipes (TOML files), where labels are strings."""
    if isinstance(value, Mapping):
        return {label_name(label): weight for label, weight in value.items()}
    return value
