"""Distillation for a task: a smaller model is made from a fine-tuned teacher and examples.

The training is that of `bertsmith finetune`, with a teacher: `distill` is called as `finetune` is.
The student starts from layers of its teacher and is trained on labels and on the teacher's outputs.
The loss on last-layer vectors is off by default. With 3 of the 6 layers of all-MiniLM-L6-v2 on
SST-2 (teacher 0.864, two seeds), students trained on the teacher's 2,000 sentences reached 0.846
without this loss, 0.843 with weight 1 and 0.841 with weight 3. With 6,000 unlabelled sentences more
they reached 0.861, with and without it. The same layers, fine-tuned on the labels of the 2,000
sentences without a teacher, reached 0.848.
Layers 1, 3, 5 reach as much as 0, 2, 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts, max_text_length
from bertsmith.data.unknown_tokens import describe_rate
from bertsmith.distillation.objective import Distillation, DistillationWeights, divide_batch
from bertsmith.distillation.settings import DistillSettings
from bertsmith.distillation.student import (
    check_vocabularies,
    check_widths,
    distillation_facts,
    loss_weights,
    shorten,
)
from bertsmith.distillation.teacher import LiveTeacher, Teacher, fingerprint
from bertsmith.distillation.teacher_cache import ROWS, stored_teacher
from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.evaluation.side_by_side import (
    ComparisonInput,
    ModelComparison,
    check_can_be_reread,
    compare_side_by_side,
)
from bertsmith.finetuning.cls_query_reset import reset_cls_queries
from bertsmith.finetuning.fine_tuned import FineTuned
from bertsmith.finetuning.prepared_run import PreparedRun
from bertsmith.finetuning.resolve import count_shares, resolve_finetuning
from bertsmith.finetuning.run import FinetuningRun
from bertsmith.finetuning.task_examples import compute_unknown_rate, encode_examples
from bertsmith.finetuning.task_model import build_for_task
from bertsmith.model.bert import BertModel
from bertsmith.model.loading import build
from bertsmith.model.model_folder import read_folder
from bertsmith.system.counts import count_noun
from bertsmith.system.matrix_products import DTYPES
from bertsmith.system.terminal import Say
from bertsmith.tasks.averaged_classification import AveragedTask
from bertsmith.tasks.catalog import task_of_folder
from bertsmith.tasks.example_objective import FineTuning, TrainingExamples, training_examples
from bertsmith.tasks.inference import LoadedModel, set_dtype
from bertsmith.tasks.linear_classification import LinearTask
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.callback import Callback
from bertsmith.training.machine import Machine
from bertsmith.training.run import Trained

SAME_LANGUAGE = 0.5
"""Least cosine of token counts that two sets of texts in one language have. With 50 sentences or
more, 0.59 to 0.99 was measured between different kinds of texts in one language, and 0.12 to 0.45
between English, German, Dutch, French and Spanish."""
REPLACEMENT = "\ufffd"
"""Character for bytes that are no UTF-8, as those of a token that is part of a letter."""
ENOUGH_TOKENS = 300
"""Fewest tokens with letters that each set of texts must have to be compared by its counts."""


@dataclass(frozen=True)
class Distilled:
    """The result of a run: the student's scores, and the comparison."""

    student: FineTuned
    made_of: str
    """Description of the weights that the student started from."""
    num_unlabelled: int
    """Number of texts without labels."""
    comparison: ModelComparison | None
    """Teacher and student side by side; None if the examples are not read from files."""

    def to_json(self) -> dict[str, Any]:
        return {
            **self.student.to_json(),
            "made_of": self.made_of,
            "num_unlabelled": self.num_unlabelled,
            "comparison": self.comparison and self.comparison.to_json(),
        }

    def __str__(self) -> str:
        lines = [f"student: {self.made_of}", str(self.student)]
        if self.num_unlabelled:
            texts = count_noun(self.num_unlabelled, "text")
            lines.insert(1, f"{texts} without labels, with the teacher's outputs as targets")
        if self.comparison is not None:
            lines += ["", "teacher (before) and student (after):", str(self.comparison)]
        return "\n".join(lines)


@dataclass(frozen=True)
class LoadedTeacher:
    """A teacher from its folder: the fp32 model and its task, such as text classification."""

    path: Path
    model: BertModel
    tokenizer: Tokenizer
    task: Task[Any, Any]
    fingerprint: str
    """SHA-256 of the model's config, weights and pooling, which decide its outputs."""


class DistillationRun(FinetuningRun):
    """Fine-tuning of a student, which ends with a comparison with its teacher.

    `run` is inherited. It calls `check`, `load` for models and examples, and, once the student is
    trained, `score`. The arguments are those of `distill`.
    """

    def __init__(
        self,
        distill_settings: DistillSettings,
        task_type: type[Task[Any, Any]],
        settings: FinetuneSettings,
        callbacks: Sequence[Callback],
        resume_command: str,
        *,
        dataset: TaskDataset[Any] | None = None,
        begin_series: Callable[[], object] | None = None,
        say: Say = lambda line: None,
    ) -> None:
        super().__init__(
            task_type,
            settings,
            callbacks,
            resume_command,
            dataset=dataset,
            begin_series=begin_series,
        )
        self.distill_settings = distill_settings
        self.say = say

    def check(self) -> None:
        settings, distill_settings = self.settings, self.distill_settings
        if settings.model != distill_settings.start:
            raise ConfigError(
                f"{option('model')}: found {settings.model}, but the student starts from "
                f"{distill_settings.start}. Name that folder."
            )
        distill_settings.check_out(settings.out)
        if self.dataset is None:  # else teacher and student are not compared, see `score`
            check_can_be_reread("eval", settings.eval)
        super().check()

    def load(self, dataset: TaskDataset[Any], machine: Machine) -> tuple[PreparedRun, BertModel]:
        return _load_student(
            self.task_type, self.distill_settings, self.say, self.settings, dataset, machine
        )

    def score(self, resolved: PreparedRun, trained: Trained) -> Distilled:
        scored = super().score(resolved, trained)
        comparison = None
        if self.dataset is None:  # the examples are in files, which can be read for each model
            comparison = compare_with_teacher(self.settings, self.distill_settings, self.say)
        num_unlabelled = resolved.facts["distillation"]["num_unlabelled"]
        # The report says of which weights the student was made, as `_load_student` wrote it.
        return Distilled(scored, resolved.load_report, num_unlabelled, comparison)


def distill(
    distill_settings: DistillSettings,
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    *,
    dataset: TaskDataset[Any] | None = None,
    begin_series: Callable[[], object] | None = None,
    say: Say = lambda line: None,
) -> Distilled:
    """Train a smaller model to predict as a fine-tuned one does.

    The student starts from `settings.model`, which must be `distill_settings.start`.

    Args:
        callbacks: objects that are told of each step and evaluation.
        resume_command: what the user runs to continue a stopped run, for messages.
        dataset: the examples; by default those of the settings' files.
        begin_series: if this is the first run of a new series, such as one of several seeds, the
            function that locks and clears the folder of the series; else None.
        say: displays a line about the progress.

    Raises:
        CheckpointError: the teacher has another task, or the student another vocabulary.
        ConfigError: the teacher has fewer layers than requested or does not know a label, or the
            cache was made for another teacher or other texts; and as `finetune`.
    """
    return DistillationRun(
        distill_settings,
        task_type,
        settings,
        callbacks,
        resume_command,
        dataset=dataset,
        begin_series=begin_series,
        say=say,
    ).run()


def _load_teacher(
    path: Path, task_type: type[Task[Any, Any]], task: Task[Any, Any]
) -> LoadedTeacher:
    """Load the model of a folder, which must be fine-tuned for this task.

    Raises:
        CheckpointError: the model was fine-tuned for another task, or for none.
    """
    folder = read_folder(path)
    folder.check_encoder()
    path = folder.path
    teacher_task = task_of_folder(folder)
    model = build(folder)
    # Sentence vectors need no head, so an encoder that was not fine-tuned can teach them, too.
    is_bare_encoder = teacher_task is None and not model.heads and task.head is None
    has_head = task.head is None or task.head in model.heads
    if not (is_bare_encoder or (teacher_task is task_type and has_head)):
        raise CheckpointError(
            f"{path}: {_describe_task(model, teacher_task)}; a teacher here is one that 'bertsmith "
            f"finetune {task_type.name}' makes for the same kind of labels. Name such a folder, or "
            "run the command of this one's task."
        )
    tokenizer = folder.tokenizer
    length = max_text_length(tokenizer, model.config.max_length, requested=None)
    loaded_task = task_type.restore(LoadedModel(folder, model, tokenizer, length))
    pooling = loaded_task.pooling if isinstance(loaded_task, Embed) else "mean"
    return LoadedTeacher(path, model, tokenizer, loaded_task, fingerprint(model, pooling))


def _describe_task(model: BertModel, task: type[Task[Any, Any]] | None) -> str:
    """Say in a message what a model was fine-tuned for, and so why it cannot teach here."""
    if task is None:
        return "was not fine-tuned"
    if issubclass(task, AveragedTask):
        return "averages several models, of which only one can teach"
    if issubclass(task, LinearTask):
        return "has a linear head, from which no other model can learn"
    heads = " and ".join(f"'{name}'" for name in model.heads)
    return f"was fine-tuned to '{task.name}'" + (f" with the head {heads}" if heads else "")


def _task_of_student(task: Task[Any, Any], teacher: LoadedTeacher) -> Task[Any, Any]:
    """Return the task with the labels of its teacher, in the teacher's order.

    Raises:
        ConfigError: the teacher does not know a label of the examples.
    """
    try:
        return task.with_teacher_labels(teacher.task)
    except ConfigError as error:
        raise ConfigError(f"{teacher.path}: {error.message}") from None


def _load_student(
    task_type: type[Task[Any, Any]],
    distill_settings: DistillSettings,
    say: Say,
    settings: FinetuneSettings,
    dataset: TaskDataset[Any],
    machine: Machine,
) -> tuple[PreparedRun, BertModel]:
    """Load teacher and student, and encode labelled and unlabelled examples.

    `machine` says on which device, in which precision and in how many processes the run computes.

    Returns:
        The prepared run, and the student.
    """
    if isinstance(settings, ClassifySettings) and settings.cell is not None:
        raise ConfigError(
            f"{option('cell')} has no use beside {option('teacher')}: a new LSTM or GRU learns "
            "only from labels. Leave one of them out."
        )
    teacher = _load_teacher(distill_settings.teacher, task_type, dataset.task)
    # The task takes its labels from the teacher, and then settings from the student's folder.
    dataset = replace(dataset, task=_task_of_student(dataset.task, teacher))
    folder = read_folder(settings.model)
    folder.check_encoder()
    task = dataset.task.with_model(folder, settings, dataset.train)
    dataset = replace(dataset, task=task)
    start_model = build_for_task(folder, settings, dataset)
    tokenizer = folder.tokenizer
    check_vocabularies(teacher.path, teacher.tokenizer, settings.model, tokenizer)
    model, made_of = shorten(distill_settings, start_model)
    # Where pre-training taught [CLS] little, the queries of the last layer are set to zero here, so
    # that its attention begins uniform. The result, "reset" or "keep", is stored in run.json.
    attention = reset_cls_queries(model, folder, settings, dataset.task.head)
    if settings.from_scratch:
        made_of = f"only the config; all weights start at random ({option('from_scratch', True)})"
    weights = _weights_for(distill_settings, model, teacher, dataset.task)
    # Both models read the same rows, so the model with the smaller maximum length limits rows.
    max_positions = min(model.config.max_length, teacher.model.config.max_length)
    limit = max_text_length(tokenizer, max_positions, requested=settings.max_length)
    tokenizer.model_max_length = limit  # the student's folder gets it with the tokenizer
    unlabelled = _read_unlabelled(settings, distill_settings, dataset)
    labelled, others = _build_objectives(
        settings, distill_settings, dataset, tokenizer, unlabelled, machine
    )
    # A run is resumed only with equal facts. Vectors from a cache are rounded to fp16, so a run
    # that began without a cache is not resumed with one.
    facts = {"teacher": teacher.fingerprint, "is_cached": distill_settings.cache is not None}
    # The teacher computes its outputs in each step, or once for all rows if there is a cache.
    live = _to_live_teacher(teacher, machine, hidden=weights.hidden_weight > 0)
    source: Teacher = live
    if distill_settings.cache is not None:
        objectives = [labelled] if others is None else [labelled, others]
        source = _open_stored_teacher(distill_settings.cache, live, objectives, teacher, limit, say)
    objective = Distillation(
        labelled,
        source,
        weights,
        unlabelled=others,
        facts=facts,
    )
    config = resolve_finetuning(
        settings, objective, folder.path, model.config, limit, attention, machine
    )
    student_facts = distillation_facts(distill_settings, teacher.fingerprint, made_of)
    run_facts = {"distillation": student_facts | {"num_unlabelled": len(unlabelled)}}
    return PreparedRun(dataset, tokenizer, objective, config, made_of, run_facts), model


def _weights_for(
    distill_settings: DistillSettings,
    model: BertModel,
    teacher: LoadedTeacher,
    task: Task[Any, Any],
) -> DistillationWeights:
    """Return the weights of the loss terms.

    Raises:
        ConfigError: the outputs of student and teacher cannot be compared.
    """
    student_width, teacher_width = model.config.hidden_size, teacher.model.config.hidden_size
    if task.head is None and student_width != teacher_width:
        raise ConfigError(
            f"{distill_settings.start}: makes vectors of {student_width} numbers, and the teacher "
            f"of {teacher_width}. Choose a {option('student')} as wide as the teacher, or take "
            "layers of the teacher itself."
        )
    check_widths(distill_settings, model.config, teacher.model.config)
    return loss_weights(distill_settings)


def _read_unlabelled(
    settings: FinetuneSettings, distill_settings: DistillSettings, dataset: TaskDataset[Any]
) -> list[Any]:
    """Read the examples without labels; the list is empty if no file of them is named."""
    if distill_settings.unlabelled is None:
        return []
    fewest = fewest_labelled(dataset.task) + 1
    if settings.batch_size < fewest:
        raise ConfigError(
            f"{option('batch_size')}: found {settings.batch_size}; with {option('unlabelled')} it "
            f"must be {fewest} or more, as each update reads texts with and without labels"
            f"{', and compares those with labels' if fewest > 2 else ''}."
        )
    return dataset.task.reader(distill_settings.unlabelled, settings.columns, labelled=False).read()


def fewest_labelled(task: Task[Any, Any]) -> int:
    """Return how many labelled examples a step must have: a loss over groups compares two."""
    return 1 if task.group_size is None else 2


def _build_objectives(
    settings: FinetuneSettings,
    distill_settings: DistillSettings,
    dataset: TaskDataset[Any],
    tokenizer: Tokenizer,
    unlabelled: Sequence[Any],
    machine: Machine,
) -> tuple[FineTuning, FineTuning | None]:
    """Build the objectives over labelled and, if there are any, unlabelled examples.

    Rows of labelled examples are numbered first, then rows of unlabelled examples: a cache of the
    teacher's outputs finds them by these numbers.
    """
    # Texts in each update: labelled ones and, if there are any, unlabelled ones.
    sizes: Sequence[int] = (settings.batch_size,)
    if unlabelled:
        sizes = divide_batch(
            settings.batch_size,
            len(dataset.train),
            len(unlabelled),
            fewest_labelled(dataset.task),
        )
    labelled = encode_examples(settings, dataset, tokenizer, machine, sizes[0])
    labelled.train = with_row_numbers(labelled.train, 0)
    if not unlabelled:
        return labelled, None
    assert distill_settings.unlabelled is not None
    limit = tokenizer.model_max_length
    encoded = dataset.task.encode(tokenizer, unlabelled, limit, labelled=False)
    texts = training_examples(
        dataset.task,
        encoded,
        path=distill_settings.unlabelled,
        examples=unlabelled,
        labelled=False,
    )
    notes = _notes_on_unlabelled(unlabelled, encoded, labelled.train.encoded, dataset, tokenizer)
    labelled.train = replace(labelled.train, notes=(*labelled.train.notes, *notes))
    others = FineTuning(
        dataset.task,
        with_row_numbers(texts, len(labelled.train.encoded.rows)),
        labelled.held_out,
        batch_size=sizes[1],
        num_shares=count_shares(sizes[1], machine),
        seed=settings.seed,
    )
    return labelled, others


def _notes_on_unlabelled(
    unlabelled: Sequence[Any],
    encoded: EncodedExamples,
    labelled: EncodedExamples,
    dataset: TaskDataset[Any],
    tokenizer: Tokenizer,
) -> list[str]:
    """List remarks if unlabelled texts are eval texts, or are in another language."""
    notes = []
    evaluated = {example.content for example in dataset.held_out}
    if num_overlap := sum(example.content in evaluated for example in unlabelled):
        are_eval_texts = "is also an eval text" if num_overlap == 1 else "are also eval texts"
        notes.append(
            f"{num_overlap:,} of {count_noun(len(unlabelled), 'unlabelled text')} "
            f"{are_eval_texts}, so the scores may be too high"
        )
    if unknown_note := describe_rate(compute_unknown_rate(encoded, tokenizer)):
        notes.append(f"texts without labels: {unknown_note}")
    similarity = token_similarity(encoded, labelled, tokenizer)
    if not unknown_note and similarity is not None and similarity < SAME_LANGUAGE:
        notes.append(
            "the texts without labels have other tokens than the labelled ones (cosine of their "
            f"counts {similarity:.2f}; in one language it is {SAME_LANGUAGE} or more): check that "
            f"they are in the language of {option('train')}"
        )
    return notes


def token_similarity(
    one: EncodedExamples, other: EncodedExamples, tokenizer: Tokenizer
) -> float | None:
    """Compute the cosine of the frequencies of tokens with letters; None for too few tokens.

    Languages with the same script share tokens of single letters and syllables, but differ in how
    frequent these are.
    """
    # The text of a token, since byte-level BPE spells a space in its tokens by a letter (`Ġ`), and
    # most other characters by several.
    texts = (tokenizer.decode([id_]) for id_ in range(tokenizer.vocab_size))
    has_letter = np.array([any(map(is_letter, text)) for text in texts])
    has_letter[list(tokenizer.special_ids)] = False
    first, second = (
        np.bincount(examples.rows.ids.flat, minlength=len(has_letter)) * has_letter
        for examples in (one, other)
    )
    if min(first.sum(), second.sum()) < ENOUGH_TOKENS:
        return None
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, or U+FFFD for a part of one, as a token may have."""
    return character.isalpha() or character == REPLACEMENT


def with_row_numbers(examples: TrainingExamples, first: int) -> TrainingExamples:
    """Add a target with the number of each row, from `first` on, by which outputs are cached."""
    encoded = examples.encoded
    numbers = np.arange(first, first + len(encoded.rows), dtype=np.int64)
    targets = {**encoded.row_targets, ROWS: numbers}
    return replace(examples, encoded=replace(encoded, row_targets=targets))


def _to_live_teacher(teacher: LoadedTeacher, machine: Machine, *, hidden: bool) -> LiveTeacher:
    """Move the teacher to the run's device and precision, heads in fp32.

    `hidden` is whether its last-layer vectors are needed, too.
    """
    model = teacher.model
    set_dtype(model, DTYPES[machine.precision])
    return LiveTeacher(teacher.task, model.to(machine.device), hidden=hidden)


def _open_stored_teacher(
    directory: Path,
    live: LiveTeacher,
    objectives: Sequence[FineTuning],
    teacher: LoadedTeacher,
    max_length: int,
    say: Say,
) -> Teacher:
    """Open the cache in `directory`, and first compute the outputs of `live` that it lacks.

    The outputs are those for all rows of `objectives`, in this order.
    """
    texts = join_texts([objective.train.encoded.rows for objective in objectives])
    facts: Mapping[str, Any] = {
        "teacher": teacher.fingerprint,
        "tokenizer": teacher.tokenizer.fingerprint,
        "precision": str(live.model.embeddings.word.weight.dtype).removeprefix("torch."),
        "max_length": max_length,
    }
    return stored_teacher(directory, live, texts, facts, say)


def join_texts(parts: Sequence[EncodedTexts]) -> EncodedTexts:
    """Concatenate several sets of rows."""
    return EncodedTexts.of(
        row for part in parts for row in zip(part.ids, part.type_ids, part.num_cut, strict=True)
    )


def compare_with_teacher(
    settings: FinetuneSettings, distill_settings: DistillSettings, say: Say
) -> ModelComparison:
    """Measure teacher and student on the eval file, one after the other."""
    say("measuring teacher and student side by side")
    # The teacher may have learned from a file with another separator than this one has.
    separator = settings.label_separator if isinstance(settings, ClassifySettings) else None
    comparison_input = ComparisonInput(
        data=settings.eval,
        columns=settings.columns,
        limit=settings.eval_limit,
        label_separator=separator,
        device=settings.device,
        precision=settings.precision,
    )
    return compare_side_by_side(
        read_folder(distill_settings.teacher), read_folder(settings.out), comparison_input
    )
