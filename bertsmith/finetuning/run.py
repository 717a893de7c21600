"""Fine-tuning: a pre-trained model and labelled examples → a model for a task.

All input is checked before training begins, and before an earlier output is changed. The weights
with the best evaluation are kept.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bertsmith.config import to_jsonable
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import max_text_length
from bertsmith.data.examples import example_noun
from bertsmith.data.unknown_tokens import UnknownTokens, describe_rate, warn_unknown
from bertsmith.errors import ConfigError, option
from bertsmith.finetuning.cls_query_reset import reset_cls_queries
from bertsmith.finetuning.notes import notes_on
from bertsmith.finetuning.recurrent_start import build_new, load_vocabulary, set_pooling
from bertsmith.finetuning.resolve import FinetuneConfig, count_shares, resolve_finetuning
from bertsmith.finetuning.results import LINEAR_BASELINE, FineTuningResult
from bertsmith.lineage.elmo_classifier import ElmoClassifierConfig, read_mix
from bertsmith.metrics.report import Report
from bertsmith.model.bert import BertModel
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.head_names import CLASS_HEADS
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import save_model, write_task_settings
from bertsmith.model.vocabulary_subset import VocabularySubset
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.system.counts import count_noun
from bertsmith.system.files import sha256_file
from bertsmith.system.notebook import html_lines
from bertsmith.system.paths import is_within
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.catalog import TEXT_TO_TEXT
from bertsmith.tasks.example_objective import (
    ExampleObjective,
    FineTuning,
    HeldOutExamples,
    training_examples,
)
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.finetune import ClsAttention, FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset, named_settings
from bertsmith.tasks.text_to_text_form import in_form_of_model
from bertsmith.tasks.texts import TextTask
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.callback import Callback
from bertsmith.training.journal import read_journal
from bertsmith.training.layerwise import freeze
from bertsmith.training.machine import Machine
from bertsmith.training.model_card import write_card
from bertsmith.training.run import BuiltRun, Run, Trained
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trainer import Summary

START_NOTE = "start_note"
"""Key in `run.json` of the changes to the loaded weights, in words."""


@dataclass(frozen=True, kw_only=True)
class FineTuned(FineTuningResult):
    """The result of a run: scores of the saved model, and statistics."""

    load_report: str
    best_step: int
    """The step whose weights were saved; without eval examples the last one."""
    best_score: float | None
    """The score by which the best weights were chosen; None without eval examples."""
    learning_rate: float
    training: Summary
    noun: str = "text"
    """Noun for an example in messages."""
    layer_shares: tuple[float, ...] = ()
    """Shares of an ELMo's layers in the mix that is read: first the characters', then each LSTM's.
    Empty for other models."""
    layer_gamma: float | None = None
    """Factor of that mix."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; only that of an ELMo has `layer_shares` and `layer_gamma`."""
        facts = super().to_json()
        if self.layer_gamma is None:
            facts.pop("layer_shares", None)
            facts.pop("layer_gamma", None)
        return facts

    def __str__(self) -> str:
        lines = self._lines()
        if self.choice is not None:
            lines = [str(self.choice), *lines]
        if self.evaluation is None:
            return "\n".join(lines)
        return "\n".join([*lines, *self._score_lines(*self._advice())])

    def _repr_mimebundle_(self, **include: Any) -> dict[str, str]:
        """Return the text for IPython, which would show all fields of the dataclass."""
        return {"text/plain": str(self)}

    def _repr_html_(self) -> str | None:
        lines = html_lines(self._lines())
        if self.evaluation is None:
            return lines
        # A task from outside the package may have its own kind of report, which is shown as text.
        if not isinstance(self.evaluation, Report):
            return None
        after = [*map(str, self.baselines), *self._advice()]
        return lines + self.evaluation._repr_html_() + html_lines(after)

    def _lines(self) -> list[str]:
        """Describe the run, with remarks on it."""
        trained = (
            f"trained on {count_noun(self.num_train, self.noun)} {self.target}: "
            f"{count_noun(self.training.steps, 'step')} in {self.training.elapsed_seconds:.1f} s"
        )
        if self.evaluation is not None:
            trained += f"; best after step {self.best_step:,}"
        lines = [
            trained,
            f"model in {self.out} (curves.svg and journal.jsonl beside it)",
        ]
        if self.layer_gamma is not None:
            shares = ", ".join(f"{100 * share:.1f}" for share in self.layer_shares)
            lines.append(
                f"layers are mixed by {shares} % (characters first, then each LSTM), times "
                f"{self.layer_gamma:.3f}"
            )
        if self.best_step == 0:
            lines.append(
                "training did not improve the model, so the initial weights were kept; a lower "
                "learning rate may help"
            )
        return lines + notes_on(vars(self))

    def _advice(self) -> list[str]:
        """Recommend another way of training if its baseline scores better than the model."""
        scores = self.evaluation.to_json()
        advice = []
        for baseline in self.baselines:
            score, its_value = next(iter(baseline.scores.items()))
            if its_value <= scores.get(score, 1.0):
                continue
            if baseline.key == "cosine" and self.task == "regress":
                advice.append(
                    "the cosine scores better: for pairs like these, try `bertsmith finetune embed`"
                )
            if baseline.key == LINEAR_BASELINE:
                advice.append(
                    f"the linear head scores better here: {option('head', 'linear')} keeps it, and "
                    f"{option('head', 'auto')} compares all heads without the eval texts"
                )
        return advice


TRAINED_HEAD = "training_state.head.safetensors"
"""File of a checkpoint with the weights of the head in training, if the model folder stores the
head in another form."""


def file_sums(settings: FinetuneSettings) -> dict[str, str]:
    """Compute the SHA-256 of the files of examples."""
    files = [path for path in (settings.train, settings.eval) if path.is_file()]
    return {str(file): sha256_file(file) for file in files}


@dataclass(frozen=True)
class PreparedRun:
    """A run whose settings and input are checked; nothing is written yet."""

    dataset: TaskDataset[Any]
    tokenizer: Tokenizer
    objective: ExampleObjective
    config: FinetuneConfig
    load_report: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `run.json`."""


class FinetuningRun(Run[PreparedRun, Any]):
    """Fine-tuning of a model to a task, with its scores.

    Args:
        dataset: the examples; by default those of the settings' files.
        begin_series: locks and clears the folder of a new series, if this is the series' first run.
        has_costly_baselines: whether to score also the baselines that take some seconds.
    """

    objective_type: ClassVar[type[FineTuning]] = FineTuning

    def __init__(
        self,
        task_type: type[Task[Any, Any]],
        settings: FinetuneSettings,
        callbacks: Sequence[Callback],
        resume_command: str,
        *,
        dataset: TaskDataset[Any] | None = None,
        begin_series: Callable[[], object] | None = None,
        has_costly_baselines: bool = False,
    ) -> None:
        super().__init__(
            settings.out,
            settings,
            resume=settings.resume,
            callbacks=callbacks,
            resume_command=resume_command,
        )
        # An earlier series in the folder around a new run is not changed until all is checked.
        self.is_locked_while_resolved = settings.resume
        self.task_type = task_type
        self.settings = settings
        self.dataset = dataset
        self.begin_series = begin_series
        self.has_costly_baselines = has_costly_baselines
        self._initial: BertModel | None = None
        """The loaded model; None once it is trained, since scoring needs the memory."""

    def check(self) -> None:
        check_run_out(self.settings)

    def hold(self) -> AbstractContextManager[object]:
        if self.begin_series is not None:
            self.begin_series()
        return super().hold()

    def resolve(self, machine: Machine) -> PreparedRun:
        dataset = self.dataset or self.task_type.read(self.settings)
        # A fold trains on some of the examples that were read.
        task = dataset.task.with_train(dataset.train, self.settings.train)
        prepared, self._initial = self.load(replace(dataset, task=task), machine)
        if self.dataset is None:  # in a series, each run would repeat the warnings
            for part in (prepared.objective.train, prepared.objective.held_out):
                warn_unknown(count_unknown(part.encoded, prepared.tokenizer), part.path)
        return prepared

    def load(self, dataset: TaskDataset[Any], machine: Machine) -> tuple[PreparedRun, BertModel]:
        """Load the model and encode the examples."""
        settings = self.settings
        attention: ClsAttention = "keep"
        if isinstance(settings, ClassifySettings) and settings.cell is not None:
            path, tokenizer = settings.model, load_vocabulary(settings.model)
            model = build_new(settings, dataset.task, tokenizer)
        else:
            to_classify = dataset.task.head in CLASS_HEADS
            folder = read_folder(settings.model, to_classify=True)
            can_write = dataset.task.head in TEXT_TO_TEXT and folder.family.config.writes_labels
            if not (to_classify or can_write):
                folder.check_encoder()
            set_pooling(folder, settings)
            task = in_form_of_model(dataset.task, folder, settings, dataset.train)
            task = task.with_model(folder, settings, dataset.train)
            dataset = replace(dataset, task=task)
            model = build_for_task(folder, settings, dataset)
            path, tokenizer = folder.path, folder.tokenizer
            attention = reset_cls_queries(model, folder, settings, dataset.task.head)
        # Saved with the model, so that it is used as it was trained.
        limit = max_text_length(tokenizer, model.config.max_length, settings.max_length)
        tokenizer.model_max_length = limit
        objective = encode_examples(
            settings, dataset, tokenizer, machine, settings.batch_size, self.objective_type
        )
        config = resolve_finetuning(
            settings, objective, path, model.config, limit, attention, machine
        )
        load_report = str(model.load_report)
        if settings.begins_at_random:
            loaded = "shape" if settings.from_scratch else "vocabulary"
            cause = option("from_scratch", True) if settings.from_scratch else option("cell")
            load_report = f"Loaded only the {loaded}; all weights begin at random ({cause})."
        return PreparedRun(dataset, tokenizer, objective, config, load_report), model

    def build(self, resolved: PreparedRun, machine: Machine) -> BuiltRun:
        model, self._initial = self._initial, None
        assert model is not None
        is_trained = self.resume and self.folder.is_trained
        checkpoint = None if is_trained else self.newest_checkpoint()
        if checkpoint is not None:
            model = load_model(checkpoint.path)
            _read_trained_head(model, checkpoint.path)
        model.set_dropout(self.settings.dropout)
        freeze(model, resolved.config.optim)
        subset = resolved.objective.narrow_vocabulary(model)
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            resolved.config,
            save=partial(_save, model, subset, resolved, self.folder.path),
            facts={
                "settings": to_jsonable(self.settings),
                START_NOTE: model.load_report.note if model.load_report else "",
                "files": file_sums(self.settings),
                **resolved.facts,
            },
            checkpoint=checkpoint,
        )

    def write_beside_model(self) -> None:
        """Draw the curves; `build_result` writes the card, with the scores."""
        self.folder.remove_checkpoints()
        self.draw_curves()

    def state_before_result(self) -> str:
        return "stopped after its last step; the model is saved, but not yet scored"

    def build_result(self, resolved: PreparedRun, trained: Trained) -> Any:
        """Score the saved model, and write the card and the result."""
        result = self.score(resolved, trained)
        facts = {**self.folder.read_run(), "result": result.to_json()}
        write_card(self.folder.path, facts)
        self.folder.write_run(facts)
        return result

    def score(self, resolved: PreparedRun, trained: Trained) -> Any:
        """Score the saved model and the baselines."""
        scored = _score_saved(self.settings, resolved, trained)
        entries = read_journal(self.folder.journal_path)
        baselines = score_baselines(
            self.settings,
            resolved.dataset,
            scores_before(resolved.dataset.task.name, entries[0] if entries else {}),
            costly=self.has_costly_baselines,
        )
        return replace(scored, baselines=baselines)


def finetune(
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    *,
    dataset: TaskDataset[Any] | None = None,
    begin_series: Callable[[], object] | None = None,
    has_costly_baselines: bool = False,
) -> FineTuned:
    """Fine-tune a model to a task, and score the saved model.

    Args:
        dataset: the examples; by default those of the settings' files.
        begin_series: locks and clears the folder of a new series, if this is the series' first run.
            It is called once all input and all ranks are checked, and before anything is written.
        has_costly_baselines: whether to score also the baselines that take some seconds.

    Raises:
        InputError: the examples cannot be read, or there are none to train on.
        CheckpointError: the model folder is incomplete or not a BERT.
        ConfigError: a setting that this model or machine cannot meet, or an occupied `out`.
        Interrupted: the user asked to stop; a checkpoint to resume from was written.
    """
    return FinetuningRun(
        task_type,
        settings,
        callbacks,
        resume_command,
        dataset=dataset,
        begin_series=begin_series,
        has_costly_baselines=has_costly_baselines,
    ).run()


def _save(
    model: BertModel, subset: VocabularySubset, prepared: PreparedRun, out: Path, folder: Path
) -> None:
    """Save a model with the embeddings of its whole vocabulary to `folder`.

    The folder is `out` or a checkpoint, which also stores the head in training.
    """
    with subset.widened(model), prepared.dataset.task.as_saved(model) as trained_head:
        save_model(model, folder, prepared.tokenizer)
    if trained_head and folder != out:
        write_safetensors(folder / TRAINED_HEAD, trained_head)


def _read_trained_head(model: BertModel, checkpoint: Path) -> None:
    """Load the head in training from a checkpoint, if it is in a file of its own there."""
    if (file := checkpoint / TRAINED_HEAD).is_file():
        model.load_state_dict(read_safetensors(file), strict=False)


def _score_saved(
    settings: FinetuneSettings,
    prepared: PreparedRun,
    trained: Trained,
) -> FineTuned:
    """Score the saved model, and store the settings that depend on the scores."""
    dataset, train, best = prepared.dataset, prepared.objective.train, trained.best
    dataset.task.write_files(settings.out)
    evaluation = None
    scored = dataset.task
    if dataset.held_out:
        predictor = Predictor.load(
            settings.out,
            type(dataset.task),
            device=settings.device,
            precision=settings.precision,
        )
        predictor.unknown_tokens.is_reported = True  # a warning came before training
        task = predictor.definition.with_columns(settings.columns)
        predictor = predictor.with_definition(task)
        accumulator = accumulate_examples(predictor, dataset.held_out, settings.eval)
        evaluation = accumulator.result(dataset.num_held_out_skipped)
        scored = scored.with_threshold(evaluation)
    write_task_settings(settings.out, named_settings(scored))
    return FineTuned(
        out=settings.out,
        task=dataset.task.name,
        target=dataset.task.describe_target(),
        labels=dataset.task.labels,
        num_train=len(dataset.train),
        num_train_windowed=train.num_windowed,
        num_train_truncated=train.num_truncated,
        num_train_skipped=dataset.num_skipped,
        num_overlap=dataset.num_overlap,
        notes=train.notes,
        load_report=prepared.load_report,
        start_note=RunFolder(settings.out).read_run().get(START_NOTE, ""),
        best_step=trained.summary.steps if best is None else best.step,
        best_score=None if best is None else best.score,
        learning_rate=prepared.config.optim.peak_rate,
        training=trained.summary,
        evaluation=evaluation,
        noun=noun_of(dataset.task),
        **_mix_of(prepared, settings.out),
    )


def noun_of(task: Task[Any, Any]) -> str:
    """Return the noun for an example of the task in reports."""
    return example_noun(is_pair=task.pairs) if isinstance(task, TextTask) else task.noun


def _mix_of(prepared: PreparedRun, out: Path) -> dict[str, Any]:
    """Return the fields of `FineTuned` about the mix of an ELMo; none for other models."""
    if not isinstance(prepared.config.model, ElmoClassifierConfig):
        return {}
    mix = read_mix(out)
    return {"layer_shares": tuple(mix.shares.tolist()), "layer_gamma": mix.scale.item()}


def score_baselines(
    settings: FinetuneSettings,
    dataset: TaskDataset[Any],
    initial_scores: Mapping[str, float],
    *,
    costly: bool,
) -> tuple[Baseline, ...]:
    """Score the task's baselines; with `costly`, also those that take some seconds.

    Args:
        initial_scores: scores of the model before training; empty if they were not computed.
    """
    task, train, held_out = dataset.task, dataset.train, dataset.held_out
    if not (train and held_out):
        return ()
    baselines = task.baselines.score_cheap(task, train, held_out, initial_scores)
    if costly:
        baselines += task.baselines.score_costly(task, train, held_out, settings.model, settings)
    return tuple(baselines)


def scores_before(task: str, first_entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores before training from a journal's first entry, if it has them."""
    if first_entry.get("step") != 0:
        return {}
    prefix = f"held_out_{task}_"
    return {
        name.removeprefix(prefix): value
        for name, value in first_entry.items()
        if name.startswith(prefix) and not name.endswith(("_loss", "_score"))
    }


def check_run_out(settings: FinetuneSettings) -> None:
    """Refuse an `out` that contains the model to start from, or another run.

    Raises:
        ConfigError: it contains one of these, or the settings name no eval examples.
    """
    settings.check_held_out()
    out = settings.out
    if is_within(settings.model, out):
        raise ConfigError(
            f"{out}: holds {option('model', settings.model)}. Choose another {option('out')}."
        )
    # The entry of run.json that is written last: a single run is complete once it is scored.
    final_key = "summary" if settings.is_series else "result"
    RunFolder(out).check(
        resume=settings.resume,
        overwrite=settings.overwrite,
        final_key=final_key,
        kind="series of runs" if settings.is_series else "fine-tuning",
    )


def build_for_task(
    folder: ModelFolder, settings: FinetuneSettings, dataset: TaskDataset[Any]
) -> BertModel:
    """Build the folder's model with the task's head.

    A stored head is kept if it was trained for exactly the same labels.
    """
    task = dataset.task
    heads = [] if task.head is None else [task.head]
    num_labels = len(task.labels) or None
    with drawing_from(settings.seed):
        model = build(folder, heads, num_labels)
        if settings.from_scratch:
            new_heads = build_heads(model.config, heads, num_labels)
            has_pooler = model.pooler is not None
            new_model = BertModel(model.config, new_heads, pooler=has_pooler)
            model.load_state_dict(new_model.state_dict())
        labels = dict(enumerate(task.labels))
        if model.id2label not in ({}, labels):
            model.heads.apply(model.initialize)
        assert model.load_report is not None
        encoder_prefix = family_named(model.config.model_type).prefix
        lacks_head = any(not name.startswith(encoder_prefix) for name in model.load_report.missing)
        if lacks_head or model.id2label != labels or settings.from_scratch:
            task.begin_head(model, dataset.train)
        else:
            task.continue_head(model)
    model.id2label = labels
    model.task_settings = named_settings(task)
    return model


def encode_examples(
    settings: FinetuneSettings,
    dataset: TaskDataset[Any],
    tokenizer: Tokenizer,
    machine: Machine,
    batch_size: int,
    objective_type: type[FineTuning] = FineTuning,
) -> FineTuning:
    """Encode all examples, and divide steps among this machine's processes.

    `batch_size` is that of the settings, or smaller if a step also has texts without labels.
    """
    task = dataset.task
    limit = tokenizer.model_max_length
    train = task.encode(tokenizer, dataset.train, limit, labelled=True)
    held_out = task.encode(tokenizer, dataset.held_out, limit, labelled=True)
    examples = training_examples(task, train, settings.train, dataset.train)
    unknown_note = describe_rate(count_unknown(train, tokenizer))
    if unknown_note is not None:
        examples = replace(examples, notes=(*examples.notes, unknown_note))
    return objective_type(
        task,
        examples,
        HeldOutExamples(held_out, settings.eval, dataset.held_out),
        batch_size=batch_size,
        num_shares=count_shares(batch_size, machine),
        seed=settings.seed,
    )


def count_unknown(encoded: EncodedExamples, tokenizer: Tokenizer) -> float:
    """Compute the share of unknown tokens in all rows."""
    unknown = UnknownTokens()
    unknown.add(encoded.rows.ids.flat, tokenizer)
    return unknown.rate
