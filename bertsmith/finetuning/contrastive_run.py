"""`finetune classify --head contrastive`: a model and few labelled texts → a classifier.

The encoder learns from pairs of texts which ones have the same label
(tasks/contrastive_classification.py). Then a linear head is fitted to its vectors, as in SetFit
(Tunstall et al. 2022, section 3).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from bertsmith.finetuning.label_calibration import LabelCalibration
from bertsmith.finetuning.linear_run import FittedHead, evaluate_saved, fit_task
from bertsmith.finetuning.prepared_run import PreparedRun
from bertsmith.finetuning.resolve import resolve_contrastive
from bertsmith.finetuning.run import FinetuningRun
from bertsmith.finetuning.run_files import check_run_out
from bertsmith.finetuning.scoring import score_baselines
from bertsmith.model.bert import BertModel
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import write_task_settings
from bertsmith.tasks.contrastive_classification import PairTraining, as_contrastive
from bertsmith.tasks.inference import load_for_inference
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.task import TaskDataset, named_settings
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.callback import Callback
from bertsmith.training.machine import Machine
from bertsmith.training.run import Trained


def finetune_contrastive(
    task_type: type[Classify],
    settings: ClassifySettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    *,
    dataset: TaskDataset[Any] | None = None,
    has_costly_baselines: bool = False,
    calibration: LabelCalibration | None = None,
) -> FittedHead:
    """Train the encoder on pairs of texts, fit a head, and score the saved model.

    Args:
        dataset: the examples; by default those of the settings' files.
        has_costly_baselines: whether to score also the baselines that take some seconds.
        calibration: the scale and biases of the logits that a cross-validation of this head and
            these examples has found; None leaves the logits as they are.

    Raises:
        InputError: the examples cannot be read, or there are none to train on.
        CheckpointError: the model folder is incomplete or not a BERT.
        ConfigError: a setting that this model or machine cannot meet, or an occupied `out`.
        Interrupted: the user asked to stop; a checkpoint to resume from was written.
    """
    check_run_out(settings)
    return ContrastiveRun(
        task_type,
        settings,
        dataset or task_type.read(settings),
        callbacks,
        resume_command,
        has_costly_baselines=has_costly_baselines,
        calibration=calibration,
    ).run()


class ContrastiveRun(FinetuningRun):
    """Training on pairs of texts, and a head that is fitted afterwards.

    The run of the training loop has no eval examples, since there is no head to score before its
    end. So it keeps the weights of its last step.
    """

    objective_type: ClassVar = PairTraining
    """Makes batches in which pairs of texts are compared."""

    def __init__(
        self,
        task_type: type[Classify],
        settings: ClassifySettings,
        data: TaskDataset[Any],
        callbacks: Sequence[Callback],
        resume_command: str,
        *,
        has_costly_baselines: bool,
        calibration: LabelCalibration | None,
    ) -> None:
        self.calibration = calibration
        self.data = data
        """All examples, with the task of classification. `self.dataset` has the same training
        examples with the task of comparing pairs."""
        pair_settings = resolve_contrastive(settings, len(data.train))
        pair_task: Any = as_contrastive(
            data.task,  # type: ignore[arg-type]
            group_size=pair_settings.batch_size,  # all texts of a step are compared
        )
        super().__init__(
            task_type,
            pair_settings,
            callbacks,
            resume_command,
            dataset=replace(data, task=pair_task, held_out=[]),
            has_costly_baselines=has_costly_baselines,
        )
        # Without the steps and the batch size that were decided here for these examples.
        self.given_settings = settings

    def load(self, dataset: TaskDataset[Any], machine: Machine) -> tuple[PreparedRun, BertModel]:
        """Load the encoder without a head, and encode the examples for training on pairs."""
        prepared, model = super().load(dataset, machine)
        model.id2label = {}  # an encoder without a head names no labels in its config.json
        return prepared, model

    def score(self, resolved: PreparedRun, trained: Trained) -> FittedHead:
        """Fit the head to vectors of the trained encoder, and score the folder."""
        settings: Any = self.settings
        loaded = load_for_inference(
            read_folder(settings.out), device=settings.device, precision=settings.precision
        )
        task, fitted = fit_task(loaded, self.data, settings)
        if self.calibration is not None:
            assert task.linear is not None
            task = replace(task, linear=self.calibration.apply(task.linear))
        task.write_files(settings.out)  # the weights of the linear head
        write_task_settings(settings.out, named_settings(task))
        return replace(
            fitted,
            training=trained.summary,
            calibration=self.calibration,
            num_train_truncated=resolved.objective.train.num_truncated,
            evaluation=evaluate_saved(settings, self.data),
            baselines=score_baselines(
                settings,
                self.data,
                initial_scores={},  # the model was not scored before training
                costly=self.has_costly_baselines,
            ),
        )
