"""A pre-trained model and labelled texts in, a model fine-tuned to a task out.

Everything that the user gave is checked before training begins and before an earlier output is
touched. Of all that was held against the held-out texts, the best weights are kept.
"""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from bertsmith.config import to_jsonable
from bertsmith.data.encoded_texts import encode_texts, max_text_length
from bertsmith.data.examples import Columns, Example, read_examples, stratified_sample
from bertsmith.data.labels import class_names, class_numbers
from bertsmith.errors import ConfigError
from bertsmith.evaluate import Evaluation, evaluate_classifier
from bertsmith.hardware import (
    compute_settings,
    count_trainers,
    select_device,
    select_precision,
)
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import build_heads
from bertsmith.model.huggingface import find_checkpoint, load_model
from bertsmith.tasks.classify import Classification, Classifier, LabelledTexts, Metric
from bertsmith.text.wordpiece import Tokenizer
from bertsmith.training.best import BestSettings
from bertsmith.training.checkpoint import Checkpoint, newest_checkpoint
from bertsmith.training.optim import OptimSettings
from bertsmith.training.recorder import Watcher
from bertsmith.training.run_folder import RunFolder, machine_facts
from bertsmith.training.trainer import Summary, Trainer, TrainingSettings

DEFAULT_EPOCHS = 4
MIN_STEPS = 100
"""Steps that a new head needs at least, however few the examples."""
MIN_TEXTS = 4
"""Texts of a step that are worth a process of their own."""

EVALUATION_SHARE = 0.1
"""Held-out texts are scored after each epoch, but not more often than ten times in a run."""
BASE_LEARNING_RATE = 5e-5
BASE_HIDDEN_SIZE = 768
"""The rate the paper recommends for its base model (appendix A.3); narrower ones bear more."""


@dataclass(frozen=True)
class ClassifySettings:
    """What to learn from, how long, and where to."""

    model: Path
    """Folder of the pre-trained model to start from."""
    train: Path
    """Labelled texts to learn from: .csv, .tsv or .jsonl, also as .gz, .xz or .zst."""
    eval: Path
    """Labelled texts to score by. They are never learnt from, and should not be among --train."""
    out: Path
    """Folder to write the fine-tuned model to."""
    columns: Columns = field(default_factory=Columns)
    limit: int | None = None
    """Take only the first so many rows of --train."""
    sample: int | None = None
    """Take only so many rows of --train, drawn at random so that each label keeps its share."""
    max_length: int | None = None
    """Cut texts to this many tokens. Longer ones are counted. As many as the model reads, where
    not given; fewer save time and memory."""
    epochs: float | None = None
    """How often each text is seen. 4 where not given, and more with few examples."""
    steps: int | None = None
    """How many updates of the weights, instead of --epochs."""
    batch_size: int = 16
    """Texts per update."""
    learning_rate: float | None = None
    """How far an update moves the weights. Chosen by the model's width where not given: 5e-5 for
    a base model (768 wide), in proportion more for narrower ones."""
    weight_decay: float = 0.01
    """How strongly weights are pulled towards zero; biases and LayerNorm never are."""
    warmup_fraction: float = 0.1
    """The share of the updates in which the learning rate rises from zero."""
    dropout: float = 0.1
    """The share of the model's activations that is left out at random while it learns, so that it
    does not learn the examples by heart. Counts whatever the model was pre-trained with."""
    metric: Metric = "accuracy"
    """The score by which the best weights are chosen: the share of texts with the right label, or
    the mean F1 of the classes, which lets rare classes count as much as frequent ones."""
    patience: int | None = None
    """Stop early, after this many evaluations without a better score."""
    from_scratch: bool = False
    """Begin with random weights instead of the model's own: the score shows what you would have
    without pre-training."""
    seed: int = 0
    """Decides everything random: the new head, the order of the texts, dropout."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format of the computation: fp32, bf16, or auto for this machine's fastest."""
    threads: int | None = None
    """Processor threads; as many as there are cores where not given."""
    resume: bool = False
    """Continue the stopped run in --out from its checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace what is in --out."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        if self.epochs is not None and self.steps is not None:
            raise ConfigError("--epochs and --steps exclude each other. Give one of them.")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"--learning-rate: found {self.learning_rate}; allowed is above 0.")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"--dropout: found {self.dropout}; allowed is 0 or more, below 1.")
        if self.seed < 0:
            raise ConfigError(f"--seed: found {self.seed}; allowed is 0 or more.")
        for name in ("limit", "sample", "epochs", "steps", "batch_size", "patience", "threads"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                flag = "--" + name.replace("_", "-")
                raise ConfigError(f"{flag}: found {value}; allowed is a number above 0.")

    def num_steps(self, steps_per_epoch: int) -> int:
        """How many updates the run has."""
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            return max(1, round(self.epochs * steps_per_epoch))
        return max(DEFAULT_EPOCHS * steps_per_epoch, MIN_STEPS)

    def rate(self, hidden_size: int) -> float:
        """The learning rate for a model of this width."""
        if self.learning_rate is not None:
            return self.learning_rate
        return BASE_LEARNING_RATE * BASE_HIDDEN_SIZE / hidden_size

    def optim(self, hidden_size: int) -> OptimSettings:
        """How the weights of a model of this width are updated."""
        return OptimSettings(
            learning_rate=self.rate(hidden_size),
            weight_decay=self.weight_decay,
            warmup_fraction=self.warmup_fraction,
        )


@dataclass(frozen=True)
class FineTuned:
    """What came of a run: its scores as the saved folder gives them, and how it went."""

    out: Path
    labels: tuple[str, ...]
    num_train: int
    num_train_truncated: int
    num_train_skipped: int
    num_leaked: int
    load_report: str
    best_step: int
    learning_rate: float
    training: Summary
    evaluation: Evaluation

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return dict(to_jsonable(self))

    def __str__(self) -> str:
        """What was learnt from, where the model is, and its scores."""
        lines = [
            f"learnt {len(self.labels)} labels from {self.num_train:,} texts in "
            f"{self.training.steps:,} steps and {self.training.elapsed_seconds:.1f} s; "
            f"best after step {self.best_step:,}",
            f"model in {self.out}",
        ]
        if self.num_train_truncated:
            lines.append(f"{self.num_train_truncated:,} training texts were longer than the model "
                         "reads and were cut")  # fmt: skip
        if self.num_train_skipped:
            lines.append(f"{self.num_train_skipped:,} training rows without text or label were "
                         "skipped")  # fmt: skip
        lines.append("the scores are of the texts by which the best weights were chosen, so a "
                     "little too good")  # fmt: skip
        if self.num_leaked:
            lines.append(f"{self.num_leaked:,} of the held-out texts stand in the training file "
                         "too: the scores below are too good")  # fmt: skip
        return "\n".join([*lines, "", str(self.evaluation)])


@dataclass(frozen=True)
class ClassifyData:
    """The examples of a run, checked: every held-out label is one that training has."""

    train: list[Example]
    held_out: list[Example]
    names: tuple[str, ...]
    num_skipped: int

    @property
    def num_leaked(self) -> int:
        """Held-out texts that stand among the training texts too, so their score means nothing."""
        seen = {(example.text, example.pair) for example in self.train}
        return sum((example.text, example.pair) in seen for example in self.held_out)


def finetune_classify(
    settings: ClassifySettings,
    watchers: Sequence[Watcher] = (),
    resume_command: str = "the same call with resume",
) -> FineTuned:
    """Fine-tune a model to sort texts into classes, and score what was saved.

    Raises:
        InputError: the examples cannot be read, or are no classes to learn.
        CheckpointError: the model folder is incomplete or not a BERT.
        ConfigError: a setting that this model or machine cannot meet, or an occupied `out`.
        Interrupted: the user asked to stop; a checkpoint was written to go on from.
    """
    check_out(settings)
    data = read_data(settings)
    model, tokenizer = load_for_classes(settings, data.names)
    limit = max_text_length(tokenizer, model.config.max_position_embeddings, settings.max_length)
    # Saved with the model, so that it is used as it was trained.
    tokenizer.model_max_length = limit
    device = select_device(settings.device)
    with compute_settings(device, settings.threads):
        num_processes = max(1, min(count_trainers(device), settings.batch_size // MIN_TEXTS))
    objective = Classification(
        encode_labelled(tokenizer, data.train, data.names, settings.train),
        encode_labelled(tokenizer, data.held_out, data.names, settings.eval),
        len(data.names),
        batch_size=settings.batch_size,
        num_parts=num_processes,
        seed=settings.seed,
    )
    folder = RunFolder(settings.out)
    checkpoint = newest_checkpoint(folder.checkpoints_dir) if settings.resume else None
    load_report = str(model.load_report)
    if settings.from_scratch:
        load_report = "nothing but the shape; every weight begins at random (--from-scratch)"
    if checkpoint is not None:
        model = load_model(checkpoint.path, heads=("classify",), num_labels=len(data.names))
    model.set_dropout(settings.dropout)
    summary, best_step = train(
        settings, model, objective, tokenizer, checkpoint, watchers, resume_command
    )
    result = FineTuned(
        out=settings.out,
        labels=data.names,
        num_train=len(data.train),
        num_train_truncated=objective.train.texts.num_truncated,
        num_train_skipped=data.num_skipped,
        num_leaked=data.num_leaked,
        load_report=load_report,
        best_step=best_step,
        learning_rate=settings.rate(model.config.hidden_size),
        training=summary,
        evaluation=evaluate_saved(settings),
    )
    folder.write_run({**folder.read_run(), "result": result.to_json()})
    return result


def check_out(settings: ClassifySettings) -> None:
    """Refuse to write over the model that training starts from, or unasked over anything else."""
    out = settings.out
    if settings.model.resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"{out}: holds --model {settings.model}. Choose another --out.")
    RunFolder(out).check(resume=settings.resume, overwrite=settings.overwrite)
    may_be_in_use = settings.resume or settings.overwrite
    if not may_be_in_use and out.is_dir() and any(out.iterdir()):
        raise ConfigError(
            f"{out}: the folder is not empty. Choose another --out, or pass --overwrite to use it."
        )


def read_data(settings: ClassifySettings) -> ClassifyData:
    """Read both files and agree on the classes."""
    examples, num_skipped = read_examples(settings.train, settings.columns, limit=settings.limit)
    if settings.sample is not None:
        examples = stratified_sample(examples, settings.sample, settings.seed)
    names = class_names(examples, settings.train)
    held_out, _ = read_examples(settings.eval, settings.columns)
    class_numbers(held_out, names, settings.eval)
    return ClassifyData(examples, held_out, names, num_skipped)


def load_for_classes(
    settings: ClassifySettings, names: Sequence[str]
) -> tuple[BertModel, Tokenizer]:
    """The model with a classification head for `names`, and its tokenizer.

    A stored head is kept if it was trained for the very same labels.
    """
    directory = find_checkpoint(settings.model)
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = load_model(directory, heads=("classify",), num_labels=len(names))
        if settings.from_scratch:
            fresh = build_heads(model.config, ["classify"], len(names))
            model.load_state_dict(BertModel(model.config, fresh).state_dict())
        labels = dict(enumerate(names))
        if model.id2label != labels:
            model.heads["classify"].apply(model.initialize)
    model.id2label = labels
    return model, Tokenizer.load(directory)


def encode_labelled(
    tokenizer: Tokenizer, examples: Sequence[Example], names: Sequence[str], path: Path
) -> LabelledTexts:
    """Token ids and class numbers of examples, cut to the tokenizer's longest text."""
    texts = ((example.text, example.pair) for example in examples)
    return LabelledTexts(
        texts=encode_texts(tokenizer, texts, tokenizer.model_max_length),
        labels=class_numbers(examples, names, path),
        path=path,
        rows=tuple(example.row for example in examples),
    )


def train(
    settings: ClassifySettings,
    model: BertModel,
    objective: Classification,
    tokenizer: Tokenizer,
    checkpoint: Checkpoint | None,
    watchers: Sequence[Watcher],
    resume_command: str,
) -> tuple[Summary, int]:
    """Run the training loop, which saves the best weights; also gives the step they are from."""
    device = select_device(settings.device)
    steps = settings.num_steps(objective.steps_per_epoch)
    run = TrainingSettings(
        steps=steps,
        batch_size=settings.batch_size,
        seed=settings.seed,
        eval_every=max(objective.steps_per_epoch, round(steps * EVALUATION_SHARE)),
        keep=1,
    )
    folder = RunFolder(settings.out)
    with compute_settings(device, settings.threads):
        trainer = Trainer(
            model.to(device),
            objective,
            folder,
            run,
            settings.optim(model.config.hidden_size),
            precision=select_precision(settings.precision, device),
            num_processes=objective.num_parts,
            tokenizer=tokenizer,
            watchers=watchers,
            best=BestSettings(f"held_out_classify_{settings.metric}", settings.patience),
            resume_command=resume_command,
        )
        if settings.resume:
            trainer.resume(checkpoint)
        else:
            trainer.begin({"settings": to_jsonable(settings), **machine_facts(device)})
        summary = trainer.run()
    assert trainer.best is not None
    shutil.rmtree(folder.checkpoints_dir, ignore_errors=True)
    return summary, trainer.best.step


def evaluate_saved(settings: ClassifySettings) -> Evaluation:
    """The scores of the folder as it now stands, by the same road as `bertsmith evaluate`."""
    classifier = Classifier.load(settings.out, device=settings.device, precision=settings.precision)
    with compute_settings(select_device(settings.device), settings.threads):
        return evaluate_classifier(classifier, settings.eval, settings.columns)
