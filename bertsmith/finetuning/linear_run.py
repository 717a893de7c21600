"""`finetune classify --head linear`: a frozen encoder and labelled texts → a classifier.

The encoder turns each text into a vector once, and is not trained. A linear head, which is logistic
regression, is fitted to the vectors and to counted tokens (tasks/linear_head.py). This takes
seconds, so there are no training steps and no checkpoints. With `--head counts`, only the counted
tokens decide.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.data.unknown_tokens import describe_rate
from bertsmith.errors import ConfigError, option
from bertsmith.finetuning.corpus_fit import fit_with_corpus
from bertsmith.finetuning.folds import folds_of
from bertsmith.finetuning.label_calibration import LabelCalibration
from bertsmith.finetuning.linear_features import LabelledTexts
from bertsmith.finetuning.linear_fit import (
    CrossValidation,
    fit_linear_head,
    fit_to_trained_vectors,
)
from bertsmith.finetuning.notes import notes_on_examples
from bertsmith.finetuning.results import FineTuningResult
from bertsmith.finetuning.run_files import check_run_out, file_sums
from bertsmith.finetuning.scoring import noun_of, score_baselines
from bertsmith.finetuning.task_examples import compute_unknown_rate
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts, open_unlabelled
from bertsmith.model.loading import build
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import save_model
from bertsmith.system.counts import count_noun
from bertsmith.system.paths import check_outside
from bertsmith.tasks.inference import LoadedModel, compute_in_order, load_for_inference
from bertsmith.tasks.linear_classification import (
    LinearClassify,
    LinearTask,
    with_linear_head,
)
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.task import TaskDataset, named_settings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_vectors import mean_vectors
from bertsmith.training.callback import Callback
from bertsmith.training.machine import Machine, computing_on
from bertsmith.training.model_card import write_card
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.run_machine import machine_facts
from bertsmith.training.trainer import Summary
from bertsmith.training.write_errors import naming_the_run

NUM_FOLDS = 5
"""Number of folds of the cross-validation that chooses the penalty."""
MANY_TEXTS = 5000
"""Fewest texts with which only one of the folds is held out, since its score is exact enough."""
HEADS = {
    "linear": "a linear head",
    "counts": "a linear head on token counts alone",
    "contrastive": "a linear head on trained vectors",
}
"""Names of the heads in reports, by the value of `--head`."""


@dataclass(frozen=True, kw_only=True)
class FittedHead(FineTuningResult):
    """The result of fitting a head: the choice of the penalty, and scores of the saved model."""

    head: str
    """Name of the head, one of `HEADS`."""
    cross_validation: CrossValidation | None
    """The chosen penalty with its scores on held-out texts. None if there were too few texts, or if
    the encoder was trained on them."""
    noun: str = "text"
    """Noun for an example in messages."""
    seconds: float
    """Time to encode the texts, compute their vectors and fit the head."""
    num_sentences: int | None = None
    """Number of sentences of a corpus that the head learned from; None without a corpus."""
    training: Summary | None = None
    """The training of the encoder; None if it was not trained."""
    calibration: LabelCalibration | None = None
    """The scale and biases by which `--head auto` corrected the logits of a contrastive head; else
    None."""

    def __str__(self) -> str:
        lines = [] if self.choice is None else [str(self.choice)]
        if self.training is not None:
            lines.append(
                f"trained the encoder on pairs of texts: {count_noun(self.training.steps, 'step')} "
                f"in {self.training.elapsed_seconds:.1f} s"
            )
        lines += [
            f"fitted {self.head} to {count_noun(self.num_train, self.noun)} {self.target} in "
            f"{self.seconds:.1f} s",
            f"model in {self.out}",
        ]
        if self.cross_validation is not None:
            scores = self.cross_validation
            method = f"cross-validation with {scores.num_folds} folds"
            if scores.num_folds == 1:
                method = f"one of {NUM_FOLDS} folds, held out,"
            method += f" chose the penalty (C = {scores.c:g})"
            if scores.share_of_counts:
                method += f", and a weight of {scores.share_of_counts:.2f} for token counts alone"
            lines.append(f"{method}: accuracy {scores.accuracy:.4f}, loss {scores.loss:.3f}")
        if self.calibration is not None:
            lines.append(str(self.calibration))
        if self.num_sentences is not None:
            lines.append(
                f"of the corpus, {count_noun(self.num_sentences, 'sentence')} got labels from a "
                "first head, document by document, and a second head learned from them, too"
            )
        lines += notes_on_examples(vars(self))
        if self.evaluation is not None:
            lines += self._score_lines()
        return "\n".join(lines)


def finetune_linear(
    task_type: type[Classify],
    settings: ClassifySettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call",
    *,
    dataset: TaskDataset[Any] | None = None,
    has_costly_baselines: bool = False,
    unlabelled: UnlabelledTexts | None = None,
    is_part: bool = False,
) -> FittedHead:
    """Fit a linear head, and score the saved model.

    Args:
        callbacks, resume_command: not used, since there are no steps, and a stopped run begins
            again; here because `finetune` has these arguments.
        dataset: the examples; by default those of the settings' files.
        has_costly_baselines: whether to score also the baselines that take some seconds.
        unlabelled: the texts of the settings' corpus, if they have been read before.
        is_part: whether the head is a part of an average, in whose folder it is written.

    Raises:
        InputError: the examples cannot be read, or there are none to train on.
        CheckpointError: the model folder is incomplete or not a BERT.
        ConfigError: a setting that this model or machine cannot meet, or an occupied `out`.
    """
    check_run_out(settings)
    check_outside(settings.out, settings.corpus)
    folder = RunFolder(settings.out)
    # Everything that can be refused comes before the folder is locked and an earlier run in it is
    # replaced.
    with computing_on(settings) as machine:
        data = dataset or task_type.read(settings)
        loaded = load_encoder(settings, machine)
        task, fitted = fit_task(loaded, data, settings, unlabelled)
        # An error of writing in a part of a series is named by the series, which can be resumed.
        naming = nullcontext() if is_part else naming_the_run(folder, None)
        # `held` calls the check again once it has the lock: another process may have used the
        # folder in the meantime.
        with folder.held(lambda: check_run_out(settings)), naming:
            folder.begin()
            facts = {
                "command": "finetune classify",
                "settings": to_jsonable(settings),
                "files": file_sums(settings),
                "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
                **machine_facts(machine.device),
                "precision": machine.precision,
                "config": {"model": to_jsonable(loaded.model.config), "head": settings.head},
            }
            folder.write_run(facts)
            _save(loaded, task, folder.path)
            result = replace(
                fitted,
                evaluation=evaluate_saved(settings, data),
                baselines=score_baselines(
                    settings, data, initial_scores={}, costly=has_costly_baselines
                ),
            )
            facts["result"] = result.to_json()
            write_card(folder.path, facts)
            folder.write_run(facts)
            folder.finish()
    return result


def load_encoder(settings: ClassifySettings, machine: Machine) -> LoadedModel:
    """Load the model that computes the vectors."""
    folder = read_folder(settings.model)
    folder.check_encoder()
    return load_for_inference(
        folder,
        device=str(machine.device),
        precision=machine.precision,
        max_length=settings.max_length,
    )


def fit_task(
    loaded: LoadedModel,
    data: TaskDataset[Any],
    settings: ClassifySettings,
    unlabelled: UnlabelledTexts | None = None,
) -> tuple[LinearTask[Any], FittedHead]:
    """Compute the vectors of the training texts, and fit the head to them; nothing is written.

    Args:
        unlabelled: the texts of the settings' corpus, if they have been read before.

    Returns:
        The task of classification with its linear head, and the result without scores.
    """
    began = time.perf_counter()
    if unlabelled is None:
        corpus = open_corpus_of_head(settings, loaded.folder, data)
        if corpus is not None:
            unlabelled = UnlabelledTexts.read(corpus, loaded, settings.seed)
    # Without labels: `_targets` below returns them in the form that the fit needs.
    encoded = data.task.encode(loaded.tokenizer, data.train, loaded.max_length, labelled=False)
    vectors = np.zeros((len(encoded), loaded.model.config.hidden_size), np.float32)
    if settings.head != "counts":
        # A text that is longer than the model reads has several rows (windows).
        rows = compute_in_order(loaded.model, encoded.rows, mean_vectors)
        vectors = encoded.mean_over_rows(rows)
    targets = _targets(data)
    texts = LabelledTexts(encoded, vectors, targets, _importance(data, targets))
    is_multi_label = isinstance(data.task, MultiLabel)
    scores = None
    num_sentences = None
    notes = list(data.task.notes(data.train, encoded))
    if settings.head == "contrastive":
        head = fit_to_trained_vectors(texts, loaded.tokenizer, is_multi_label=is_multi_label)
    elif unlabelled is not None:
        folds = _folds(data, settings.seed)
        head, scores, num_sentences = fit_with_corpus(
            texts, folds, unlabelled, loaded.tokenizer, settings.seed
        )
    else:
        head, scores = fit_linear_head(
            texts,
            _folds(data, settings.seed),
            loaded.tokenizer,
            is_multi_label=is_multi_label,
            threshold=settings.threshold,
        )
    unknown_note = describe_rate(compute_unknown_rate(encoded, loaded.tokenizer))
    if unknown_note is not None:
        notes.append(unknown_note)
    result = FittedHead(
        out=settings.out,
        head=HEADS[settings.head],
        task=data.task.name,
        target=data.task.describe_target(),
        labels=data.task.labels,
        num_train=len(data.train),
        noun=noun_of(data.task),
        num_train_windowed=encoded.num_windowed,
        num_train_truncated=encoded.num_truncated,
        num_train_skipped=data.num_skipped,
        num_overlap=data.num_overlap,
        notes=tuple(notes),
        cross_validation=scores,
        num_sentences=num_sentences,
        seconds=time.perf_counter() - began,
        evaluation=None,
    )
    return with_linear_head(data.task, head), result  # type: ignore[arg-type]


def open_corpus_of_head(
    settings: ClassifySettings, model: ModelFolder, data: TaskDataset[Any]
) -> Corpus | None:
    """Open the corpus that a linear head learns from, too; None if the settings name none.

    Raises:
        CorpusError: there is no such corpus, or it is damaged.
        ConfigError: the corpus does not fit the model, or the examples are pairs of texts.
    """
    if settings.corpus is None:
        return None
    task: Any = data.task
    if task.pairs:
        raise ConfigError(
            f"{option('corpus')}: a corpus has single texts, and the examples are pairs of texts. "
            "Leave it out."
        )
    return open_unlabelled(settings.corpus, model)


def _targets(data: TaskDataset[Any]) -> NDArray[np.float32]:
    """Return the labels of the training texts as 0 and 1, fp32 `[texts, labels]`."""
    task: Any = data.task
    targets = task.targets(data.train)
    if isinstance(task, MultiLabel):
        flags: NDArray[np.float32] = targets
        return flags
    return np.eye(len(task.labels), dtype=np.float32)[targets]


def _importance(data: TaskDataset[Any], targets: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Return the factors of the losses that class weights ask for; None without class weights.

    Shapes: fp32 `[texts, 1]`, the weight of each text's label; with several labels per text
    `[texts, labels]`, the weight where the text has the label, and 1 elsewhere.
    """
    task: Any = data.task
    if task.loss.weights is None:
        return None
    weights = np.array(task.loss.weights, dtype=np.float32)
    if isinstance(task, MultiLabel):
        factors: NDArray[np.float32] = 1 + (weights - 1) * targets
        return factors
    return (targets @ weights)[:, None]


def _folds(data: TaskDataset[Any], seed: int) -> list[NDArray[np.int64]]:
    """Return the indices of the texts in each fold that is held out.

    There is only one from `MANY_TEXTS` texts on, and none if all texts are the same.
    """
    folds = [np.array(fold) for fold in folds_of(data, NUM_FOLDS, seed)]
    return folds[:1] if len(data.train) >= MANY_TEXTS else folds


def _save(loaded: LoadedModel, task: LinearTask[Any], out: Path) -> None:
    """Write the encoder without its heads, the tokenizer, and the linear head."""
    # Read again from its folder in fp32: the loaded model may be in bf16.
    encoder = build(loaded.folder, heads=())
    encoder.id2label = {}  # an encoder without a head names no labels in its config.json
    encoder.task_settings = named_settings(task)
    tokenizer = loaded.tokenizer
    tokenizer.model_max_length = loaded.max_length
    task.write_files(out)  # the weights of the linear head
    save_model(encoder, out, tokenizer)


def evaluate_saved(settings: ClassifySettings, data: TaskDataset[Any]) -> Any:
    """Score the saved model on the eval examples; None if there are none."""
    if not data.held_out:
        return None
    predictor = Predictor.load(
        settings.out, LinearClassify, device=settings.device, precision=settings.precision
    )
    predictor.unknown_tokens.is_reported = True  # a warning came before training
    accumulator = accumulate_examples(predictor, data.held_out, path=settings.eval)
    return accumulator.result(data.num_held_out_skipped)
