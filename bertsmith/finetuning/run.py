"""Fine-tuning: a pre-trained model and labelled examples → a model for a task.

All input is checked before training begins, and before an earlier output is changed. The weights
with the best evaluation are kept. `Run` (training/run.py) has the order of all runs: check,
resolve, build, train, result; `FinetuningRun` says what each of these does here.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from bertsmith.config import to_jsonable
from bertsmith.data.encoded_texts import max_text_length
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import option
from bertsmith.finetuning.cls_query_reset import reset_cls_queries
from bertsmith.finetuning.fine_tuned import FineTuned
from bertsmith.finetuning.linear_baseline import score_linear_head
from bertsmith.finetuning.prepared_run import START_NOTE, PreparedRun
from bertsmith.finetuning.recurrent_start import build_new, load_vocabulary, set_pooling
from bertsmith.finetuning.resolve import resolve_finetuning
from bertsmith.finetuning.run_files import check_run_out, file_sums
from bertsmith.finetuning.scoring import score_baselines, score_saved, scores_before
from bertsmith.finetuning.task_examples import compute_unknown_rate, encode_examples
from bertsmith.finetuning.task_model import build_for_task
from bertsmith.finetuning.trained_head import read_trained_head, save_with_head
from bertsmith.model.bert import BertModel
from bertsmith.model.head_names import CLASS_HEADS
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.tasks.catalog import TEXT_TO_TEXT
from bertsmith.tasks.example_objective import FineTuning
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.finetune import ClsAttention, FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset
from bertsmith.tasks.text_to_text_form import in_form_of_model
from bertsmith.training.callback import Callback
from bertsmith.training.journal import read_journal
from bertsmith.training.layerwise import freeze
from bertsmith.training.machine import Machine
from bertsmith.training.model_card import write_card
from bertsmith.training.run import BuiltRun, Run, Trained


class FinetuningRun(Run[PreparedRun, Any]):
    """Fine-tuning of a model to a task, with its scores.

    Args:
        dataset: the examples; by default those of the settings' files.
        begin_series: if this is the first run of a new series, the function that locks and clears
            the folder of the series; else None.
        has_costly_baselines: whether to score also the baselines that take some seconds.
    """

    objective_type: ClassVar[type[FineTuning]] = FineTuning
    """The class that makes batches and losses of the examples; a subclass of the run may have
    another."""

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
        # The folder of a new run is locked only after its input is checked: it may lie in that of
        # an earlier series, which should not be changed by a run that is refused.
        self.is_locked_while_resolved = settings.resume
        self.task_type = task_type
        self.settings = settings
        self.given_settings = settings
        """The settings as the user gave them, for `run.json`; a subclass may train with others."""
        self.dataset = dataset
        self.begin_series = begin_series
        self.has_costly_baselines = has_costly_baselines
        self._initial: BertModel | None = None
        """The loaded model; None once it is trained, since scoring needs the memory."""
        self._model_folder: ModelFolder | None = None
        """The model to start from; None for a new one."""

    def check(self) -> None:
        check_run_out(self.settings)

    def hold(self) -> AbstractContextManager[object]:
        if self.begin_series is not None:
            self.begin_series()
        return super().hold()

    def resolve(self, machine: Machine) -> PreparedRun:
        dataset = self.dataset or self.task_type.read(self.settings)
        # Settings that depend on the training examples, such as the mean of a regression's
        # numbers. They are taken here, since a fold has only some of the examples that were read.
        task = dataset.task.with_train(dataset.train, self.settings.train)
        prepared, self._initial = self.load(replace(dataset, task=task), machine)
        if self.dataset is None:  # in a series, each run would repeat the warnings
            for part in (prepared.objective.train, prepared.objective.held_out):
                warn_unknown(compute_unknown_rate(part.encoded, prepared.tokenizer), part.path)
        return prepared

    def load(self, dataset: TaskDataset[Any], machine: Machine) -> tuple[PreparedRun, BertModel]:
        """Load the model, encode the examples, and decide every setting that is left open."""
        settings = self.settings
        cls_attention: ClsAttention = "keep"
        if isinstance(settings, ClassifySettings) and settings.cell is not None:
            # A new LSTM or GRU, which takes nothing of `settings.model` but its vocabulary.
            path, tokenizer = settings.model, load_vocabulary(settings.model)
            model = build_new(settings, dataset.task, tokenizer)
        else:
            # With `to_classify`, the language models below are read, too.
            folder = self._model_folder = read_folder(settings.model, to_classify=True)
            # Any model can classify, even an LSTM or a GPT. A T5 can also write numbers as text.
            # All other tasks need an encoder. `TEXT_TO_TEXT` has the tasks that a T5 can write.
            is_classification = dataset.task.head in CLASS_HEADS
            can_write = dataset.task.head in TEXT_TO_TEXT and folder.family.config.writes_labels
            if not (is_classification or can_write):
                folder.check_encoder()
            set_pooling(folder, settings)  # only LSTMs and GRUs have this option
            # A T5 writes labels as texts, which is a form of the task of its own.
            task = in_form_of_model(dataset.task, folder, settings, dataset.train)
            # From the model's folder, a task may take settings such as the pooling.
            task = task.with_model(folder, settings, dataset.train)
            dataset = replace(dataset, task=task)
            model = build_for_task(folder, settings, dataset)
            path, tokenizer = folder.path, folder.tokenizer
            # Zeroed queries let [CLS] begin as the mean over all tokens, if that is asked for or
            # if the option leaves it open and pre-training gave [CLS] nothing to do.
            cls_attention = reset_cls_queries(model, folder, settings, dataset.task.head)
        max_length = max_text_length(
            tokenizer, model.config.max_length, requested=settings.max_length
        )
        # Saved with the tokenizer, so that the model later reads as many tokens as in training.
        tokenizer.model_max_length = max_length
        objective = encode_examples(
            settings, dataset, tokenizer, machine, settings.batch_size, self.objective_type
        )
        config = resolve_finetuning(
            settings, objective, path, model.config, max_length, cls_attention, machine
        )
        load_report = str(model.load_report)
        if settings.begins_at_random:
            part = "shape" if settings.from_scratch else "vocabulary"
            cause = option("from_scratch", True) if settings.from_scratch else option("cell")
            load_report = f"Loaded only the {part}; all weights begin at random ({cause})."
        return PreparedRun(dataset, tokenizer, objective, config, load_report), model

    def build(self, resolved: PreparedRun, machine: Machine) -> BuiltRun:
        model, self._initial = self._initial, None
        assert model is not None
        # A run that was stopped after its training has only its scores to compute.
        is_trained = self.resume and self.folder.is_trained
        checkpoint = None if is_trained else self.newest_checkpoint()
        if checkpoint is not None:
            model = load_model(checkpoint.path)
            read_trained_head(model, checkpoint.path)
        model.set_dropout(self.settings.dropout)
        freeze(model, resolved.config.optim)
        # Embeddings of tokens that no example has are put aside until the model is saved.
        subset = resolved.objective.narrow_vocabulary(model)
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            resolved.config,
            save=partial(save_with_head, model, subset, resolved, self.folder.path),
            facts={
                "settings": to_jsonable(self.given_settings),
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
        scored = score_saved(self.settings, resolved, trained)
        entries = read_journal(self.folder.journal_path)
        baselines = score_baselines(
            self.settings,
            resolved.dataset,
            scores_before(resolved.dataset.task.name, entries[0] if entries else {}),
            costly=self.has_costly_baselines,
        )
        if self.has_costly_baselines and self._model_folder is not None:
            baselines += score_linear_head(self.settings, resolved.dataset, self._model_folder)
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
        begin_series: if this is the first run of a new series, the function that locks and clears
            the folder of the series; else None. It is called once all input and all ranks are
            checked, and before anything is written.
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
