"""Token classification: a label for each word, such as names, parts of speech or word bounds.

The model is BERT's encoder with a linear layer on the first token of each word (paper, section
5.3), trained by cross entropy. Sentences longer than the model reads are read in overlapping
windows; each word is decided by the window in which it has most context, in training too, so every
word counts once in the loss.
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray
from rich.text import Text as RichText
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import IGNORE_INDEX, EncodedExamples
from bertsmith.data.encoded_texts import as_list, check_string
from bertsmith.data.label_schemes import (
    OUTSIDE,
    Scheme,
    convert_labels,
    count_illegal,
    detect_scheme,
    find_spans,
)
from bertsmith.data.tagged import REMARKS, Remark, TagColumns, TaggedSentence
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.tagged_objects import parse_line
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windows import Windowing
from bertsmith.data.word_pieces import RowWords, encode_words, label_pieces
from bertsmith.errors import ConfigError, InputError
from bertsmith.metrics.entities import TagCounts, TagReport
from bertsmith.model.bert import BertModel
from bertsmith.tasks.inference import LoadedModel, compute_tokens_in_order
from bertsmith.tasks.logits import softmax, token_logits
from bertsmith.tasks.losses import ClassLoss, LossSettings
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.settings import WindowSettings
from bertsmith.tasks.soft_targets import soft_class_loss
from bertsmith.tasks.tagged_text import conll_block, marked_text, span_types
from bertsmith.tasks.task import Outcome, Task, TaskDataset, limited
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.words import WordRule
from bertsmith.training.objective import LossTerm

Metric = Literal["f1", "macro_f1", "accuracy"]


@dataclass(frozen=True)
class TagSettings(WindowSettings, LossSettings):
    """Settings of `finetune tag`."""

    train: Path
    """Labelled words to train on: CoNLL columns, CoNLL-U or .jsonl, also as .gz, .xz or .zst."""
    metric: Metric = "f1"
    """Score by which the best weights are chosen: f1 of entities (of plain labels, equal to
    accuracy), macro_f1, the mean F1 of their types, or accuracy, the share of words with the right
    label."""
    learn: Scheme | None = None
    """Label scheme of the model; by default that of --train, but IOB2 for IOB1, in which the
    beginning of an entity is hard to predict."""
    columns: TagColumns = field(default_factory=TagColumns)


class Entity(NamedTuple):
    """An entity in a text, from character `start` up to before `end`."""

    label: str
    text: str
    start: int
    end: int
    probability: float
    """Mean probability of its words' labels."""


@dataclass(frozen=True, eq=False)
class TagPrediction:
    """The labels of a sentence's words, and their probabilities.

    `probabilities` is float64 `[words, labels]`, in the order of `names`. `is_repaired` is true if
    the likeliest labels broke the scheme, so that `labels` are others.
    """

    sentence: TaggedSentence
    labels: tuple[str, ...]
    probabilities: NDArray[np.float64]
    names: tuple[str, ...]
    scheme: Scheme
    num_windows: int = 1
    is_repaired: bool = False
    is_truncated: ClassVar[bool] = False  # long sentences are read in windows

    @property
    def answer(self) -> tuple[str, ...]:
        return self.labels

    @property
    def words(self) -> tuple[str, ...]:
        """The given words, or those found in the given text."""
        return self.sentence.words

    @property
    def label_probabilities(self) -> list[float]:
        """The probability of each word's label; 0 where unknown to the model.

        Repair may introduce such labels.
        """
        numbers = {name: number for number, name in enumerate(self.names)}
        rows = self.probabilities.tolist()
        return [
            row[numbers[label]] if label in numbers else 0.0
            for row, label in zip(rows, self.labels, strict=True)
        ]

    @cached_property
    def entities(self) -> list[Entity]:
        """The entities in the original text; empty for plain labels."""
        if self.scheme == "plain":
            return []
        text, places = self.sentence.text, self.sentence.places
        sure = self.label_probabilities
        found = []
        for label, first, last in find_spans(self.labels, self.scheme):
            start, end = places[first][0], places[last - 1][1]
            mean = sum(sure[first:last]) / (last - first)
            found.append(Entity(label, text[start:end], start, end, mean))
        return found


class TagAccumulator:
    """Accumulator of spans and words."""

    def __init__(self, task: "Tag", place: Path) -> None:
        self.place = place
        self.task = task
        self.counts = TagCounts(task.scheme, strict=task.strict)
        self.loss = 0.0
        self.num_unknown = self.num_windowed = 0

    def add(self, examples: Sequence[TaggedSentence], predictions: Sequence[TagPrediction]) -> None:
        """Add a portion; a label unknown to the model counts as missed."""
        for sentence, prediction in zip(examples, predictions, strict=True):
            gold = with_scheme(sentence, self.task.scheme, self.place).labels
            self.counts.remarks.update(sentence.remarks)
            self.counts.remarks["repaired_predictions"] += prediction.is_repaired
            self.num_windowed += prediction.num_windows > 1
            self.counts.add(sentence.labels, prediction.labels, gold_scheme=sentence.scheme)
            numbers = self.task.numbers(gold)
            known = np.flatnonzero(numbers >= 0)
            right = prediction.probabilities[known, numbers[known]]
            self.loss -= float(np.log(np.maximum(right, np.finfo(np.float64).tiny)).sum())
            self.num_unknown += len(gold) - len(known)

    def figures(self) -> dict[str, float]:
        """Compute the scores of `Metric`, and mean cross entropy over known labels."""
        report = self.result()
        return {
            "loss": self.loss / max(1, report.num_words - self.num_unknown),
            "f1": report.f1,
            "macro_f1": report.macro_f1,
            "accuracy": report.accuracy,
        }

    def result(self, num_skipped: int = 0) -> TagReport:
        """Compute all scores.

        Raises:
            InputError: the model knows none of the labels.
        """
        num_words = self.counts.num_words
        if num_words and self.num_unknown == num_words:
            raise InputError(
                f"{self.place}: the model knows none of the labels in it. It knows "
                f"{listed(self.task.labels)}. Choose the column with --label-column."
            )
        return self.counts.report(
            num_skipped=num_skipped, num_unknown=self.num_unknown, num_windowed=self.num_windowed
        )


@dataclass(frozen=True)
class Tag(Task[TaggedSentence, TagPrediction]):
    """Labelling of words by `labels`, which follow `scheme`."""

    labels: tuple[str, ...] = ()
    scheme: Scheme = "plain"
    split: WordRule = "words"
    """Rule by which running text is split into words."""
    windowing: Windowing = Windowing()  # noqa: RUF009 - frozen
    repair: bool = False
    """Whether predicted labels are made legal."""
    strict: bool = False
    """Whether only legal spans count."""
    loss: ClassLoss = ClassLoss()  # noqa: RUF009 - frozen
    note: str = field(default="", compare=False)
    """Remark on the labels, shown after training."""

    name: ClassVar[str] = "tag"
    description: ClassVar[str] = """Teach a BERT to label words: names, parts of speech.

Takes a pre-trained model and two files of labelled words: one to learn from, one to score by. They
are CoNLL columns (a word a line, its label in the last column, an empty line after each sentence),
CoNLL-U or jsonl. Labels may follow any scheme (IOB1, IOB2, BIOES, BMES, or plain); it is found by
looking. The result is a folder that `bertsmith evaluate`, `bertsmith predict` and Hugging Face's
transformers open."""
    settings: ClassVar = TagSettings
    columns: ClassVar = TagColumns
    heads: ClassVar[tuple[str, ...]] = ("tag",)
    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".conll")
    rows_stay_together: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = True

    @classmethod
    def read(cls, settings: TagSettings) -> TaskDataset[TaggedSentence]:
        """Read both files and convert their labels to the model's scheme."""
        columns = settings.columns
        reader = TaggedReader(settings.train, columns)
        found = [sentence for sentence in limited(reader, settings.limit) if sentence.words]
        if not found:
            raise InputError(
                f"{settings.train}: no sentence with words in it. Give a file with at least one."
            )
        scheme = settings.learn or learnt_scheme(found[0].scheme)
        train = [with_scheme(s, scheme, settings.train) for s in found]
        num_illegal = sum(
            "repaired" in s.remarks or count_illegal(s.labels, s.scheme) > 0 for s in found
        )
        counts = Counter(label for sentence in train for label in sentence.labels)
        names = tuple(sorted(counts))
        if len(names) < 2:
            raise InputError(
                f"{settings.train}: the only label is {listed(names)}. Give sentences with two or "
                "more, or choose the column with --label-column."
            )
        task = cls(
            names,
            scheme,
            columns.split or "words",
            settings.windowing,
            loss=settings.loss(names, np.array([counts[name] for name in names])),
            note=scheme_note(
                found[0].scheme,
                scheme,
                num_illegal,
                repaired=columns.repair,
                remarks=Counter(name for s in found for name in s.remarks),
            ),
        )
        held_out_reader = TaggedReader(settings.eval, columns)
        held_out = limited(held_out_reader, settings.eval_limit)
        for sentence in held_out:  # refused now rather than after an epoch
            with_scheme(sentence, scheme, settings.eval)
        has_spans = any(label != OUTSIDE for sentence in held_out for label in sentence.labels)
        if scheme != "plain" and settings.metric != "accuracy" and not has_spans:
            raise InputError(
                f"{settings.eval}: no label but {OUTSIDE}, so F1 has nothing to score. Give "
                "sentences with entities, or --metric accuracy."
            )
        return TaskDataset(
            task.with_options(columns),
            train,
            held_out,
            reader.num_skipped,
            held_out_reader.num_skipped,
        )

    @classmethod
    def of_model(cls, model: BertModel) -> Self:
        """Restore the task from a folder; its labels show a missing scheme."""
        names = tuple(name for _, name in sorted(model.id2label.items()))
        settings = model.task_settings
        scheme = settings.get("scheme") or scheme_of_names(names)
        split = settings.get("split", "words")
        return cls(names, scheme, split, Windowing.of_settings(settings))

    @classmethod
    def predictor(cls, loaded: LoadedModel) -> "Tagger":
        return Tagger(loaded)

    @property
    def task_settings(self) -> dict[str, Any]:
        """The label scheme, the word rule and the windows."""
        return {"scheme": self.scheme, "split": self.split, **asdict(self.windowing)}

    def with_options(self, columns: TagColumns | None) -> Self:
        """Return a copy with the command line's word rule, repair and strictness."""
        if columns is None:
            return self
        return replace(
            self,
            split=columns.split or self.split,
            repair=columns.repair,
            strict=columns.strict,
        )

    def reader(
        self, source: ExampleSource, columns: TagColumns | None, *, labelled: bool
    ) -> TaggedReader:
        """Open the sentences of a file; print the format guessed without labels."""
        columns = replace(columns or TagColumns(), split=self.with_options(columns).split)
        reader = TaggedReader(source, columns, labelled=labelled)
        if not labelled and (note := reader.found_by_looking()):
            print(note, file=sys.stderr)
        return reader

    def from_words(self, texts: Sequence[str]) -> list[TaggedSentence]:
        """Split each text into words."""
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise InputError(f"text {number} is empty. Give each text in quotes.")
        return [self.from_text(text, row) for row, text in enumerate(texts, start=1)]

    def from_text(self, text: str, row: int = 0) -> TaggedSentence:
        """Split a text into words as in training."""
        return parse_line(row, text, TagColumns(split=self.split))

    def numbers(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the outputs of labels, int64 `[words]`; -1 for an unknown label."""
        return np.array([self._numbers.get(label, -1) for label in labels], dtype=np.int64)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.labels)}

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[TaggedSentence],
        max_length: int,
        *,
        labelled: bool,
    ) -> EncodedExamples:
        """Encode a row for each window of a sentence.

        Target: `labels`, int64 `[tokens]`, the labels of words at their first tokens.
        """
        if self.windowing.long_texts == "cut":
            raise ConfigError(
                "--long-texts: found cut; tag allows window alone, as every word gets a label."
            )
        words = (example.words for example in examples)
        encoded = encode_words(tokenizer, words, max_length, self.windowing)
        if not labelled:
            return encoded
        learnt = (with_scheme(example, self.scheme, Path("examples")) for example in examples)
        labels = [self.numbers(example.labels) for example in learnt]
        return replace(encoded, token_targets={"labels": label_pieces(encoded, labels)})

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count words with a label; at least 1, as a divisor."""
        return {self.name: max(1, int((batch.targets["labels"] != IGNORE_INDEX).sum()))}

    def output_losses(self, outputs: Tensor, batch: Batch) -> dict[str, LossTerm]:
        """Sum the loss over the words of the batch."""
        labels = batch.targets["labels"]
        return {
            self.name: LossTerm(
                sum=self.loss.sum(outputs, labels),
                correct=(outputs.argmax(-1) == labels).sum(),
                count=self.counts(batch)[self.name],
            )
        }

    def taught_by(self, teacher: Self) -> Self:
        """Return a copy with the labels of `teacher`.

        Raises:
            ConfigError: as in `Task.taught_by`, or the teacher's scheme is another.
        """
        if self.scheme != teacher.scheme:
            raise ConfigError(
                f"the labels of the examples would follow the scheme {self.scheme}, those of the "
                f"teacher follow {teacher.scheme}. Pass --learn {teacher.scheme}."
            )
        return super().taught_by(teacher)

    def with_labels(self, labels: tuple[str, ...]) -> Self:
        """Return a copy with other labels; labels that stay keep their weights."""
        return replace(self, labels=labels, loss=self.loss.relabelled(self.labels, labels))

    def encode_unlabelled(
        self, tokenizer: Tokenizer, examples: Sequence[TaggedSentence], max_length: int
    ) -> EncodedExamples:
        """Encode examples; a target `labels` marks the first token of each word."""
        encoded = self.encode(tokenizer, examples, max_length, labelled=False)
        nothing = [np.zeros(len(example.words), dtype=np.int64) for example in examples]
        return replace(encoded, token_targets={"labels": label_pieces(encoded, nothing)})

    def imitation(
        self, outputs: Tensor, taught: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the divergence of label probabilities, summed over words."""
        places = (batch.targets["labels"] != IGNORE_INDEX).nonzero()[:, 0]
        return soft_class_loss(outputs[places], taught[places], temperature)

    def num_imitated(self, batch: Batch) -> int:
        return self.counts(batch)[self.name]

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute fp32 `[tokens, labels]`, in the order of the packed row."""
        return token_logits(model, batch, "tag")

    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[TaggedSentence]
    ) -> list[TagPrediction]:
        """Predict the likeliest label of each word, made legal if `repair`."""
        logits = compute_tokens_in_order(model, encoded.rows, self.outputs)
        return [
            self._decide(example, [(encoded.alignment[row], logits[row]) for row in rows])
            for example, rows in zip(
                examples, map(encoded.rows_of, range(len(encoded))), strict=True
            )
        ]

    def _decide(
        self, sentence: TaggedSentence, rows: Sequence[tuple[RowWords, NDArray[np.float32]]]
    ) -> TagPrediction:
        probabilities = np.empty((len(sentence.words), len(self.labels)))
        for (words, tokens), logits in rows:
            probabilities[words] = softmax(logits[tokens])
        labels = [self.labels[number] for number in probabilities.argmax(-1).tolist()]
        is_repaired = self.repair and count_illegal(labels, self.scheme) > 0
        if is_repaired:
            labels = convert_labels(labels, self.scheme, self.scheme)
        return TagPrediction(
            sentence,
            tuple(labels),
            probabilities,
            self.labels,
            self.scheme,
            len(rows),
            is_repaired,
        )

    def accumulator(self, place: Path) -> TagAccumulator:
        return TagAccumulator(self, place)

    def to_json(self, example: TaggedSentence, prediction: TagPrediction) -> dict[str, Any]:
        """Build a line with row, text, words, labels, offsets and entities.

        It can be read again as labelled words.
        """
        entities = (
            {}
            if self.scheme == "plain"
            else {"entities": [entity._asdict() for entity in prediction.entities]}
        )
        return {
            "row": example.row,
            "text": example.text,
            "words": list(example.words),
            "labels": list(prediction.labels),
            "probabilities": prediction.label_probabilities,
            "offsets": [list(place) for place in example.places],
            **entities,
            "num_windows": prediction.num_windows,
        }

    def line(self, example: TaggedSentence, prediction: TagPrediction) -> RichText:
        """Format the text with marked entities, or plain labels behind words."""
        types = span_types(self.labels, self.scheme)
        return marked_text(example, prediction.labels, self.scheme, types)

    def record(self, example: TaggedSentence, prediction: TagPrediction, ending: str) -> str:
        """Format CoNLL columns for a file named .conll, otherwise JSON."""
        if ending == ".conll":
            return conll_block(example.words, prediction.labels, example.before)
        return super().record(example, prediction, ending)

    def outcome(self, example: TaggedSentence, prediction: TagPrediction) -> Outcome:
        """Score the share of correct words; show those with a wrong label.

        Without errors all words are shown. The confidence is that in all labels together: the
        product of their probabilities.
        """
        gold = with_scheme(example, self.scheme, Path("examples")).labels
        wrong = [i for i, label in enumerate(gold) if label != prediction.labels[i]]
        sure = prediction.label_probabilities
        shown = wrong or range(len(gold))
        return Outcome(
            text=example.text,
            gold=" ".join(f"{example.words[i]}/{gold[i]}" for i in shown),
            predicted=" ".join(f"{example.words[i]}/{prediction.labels[i]}" for i in shown),
            score=1.0 - len(wrong) / max(1, len(gold)),
            confidence=math.prod(sure) if sure else None,
        )

    def stratify_key(self, example: TaggedSentence) -> tuple[str, ...]:
        """Return the entity types in the sentence."""
        return tuple(span_types(example.labels, example.scheme))

    def learnt(self) -> str:
        """Return the number of labels and their scheme."""
        return f"{len(self.labels)} labels{self.note}"


class Tagger(Predictor[Tag, TaggedSentence, TagPrediction]):
    """A fine-tuned model that labels the words of texts or word lists."""

    task_type = Tag
    example_type = TaggedSentence
    cure = 'list(frame["text"]), or list(frame["words"]) of lists of words'

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, in the order of the model's outputs."""
        return self.task.labels

    @overload
    def __call__(self, texts: str) -> TagPrediction: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Sequence[str | Sequence[str]]) -> list[TagPrediction]: ...
    def __call__(
        self, texts: str | Sequence[str | Sequence[str]]
    ) -> TagPrediction | list[TagPrediction]:
        """Predict one text, or each of several.

        A text is a string, or a list of its words; a single one is a string.
        """
        if isinstance(texts, str):
            return self([texts])[0]
        return self.predict(texts)

    def to_examples(self, given: Sequence[Any]) -> list[TaggedSentence]:
        """Build sentences from texts or lists of words."""
        return [self._sentence(f"texts[{place}]", text) for place, text in enumerate(given)]

    def _sentence(self, name: str, text: object) -> TaggedSentence:
        if isinstance(text, str):
            return self.task.from_text(text)
        words = as_list(text, name, "a string, or a list of words")
        for place, word in enumerate(words):
            check_string(f"{name}, word {place}", word)
        return TaggedSentence(tuple(words))


def learnt_scheme(scheme: Scheme) -> Scheme:
    """Return the scheme to train: the file's, but IOB2 for IOB1."""
    return "IOB2" if scheme == "IOB1" else scheme


def scheme_of_names(names: Sequence[str]) -> Scheme:
    """Detect the scheme of label names; plain if some follow none.

    Names such as `[PAD]` belong to no scheme.
    """
    try:
        return detect_scheme([[name] for name in names])
    except InputError:
        return "plain"


def with_scheme(sentence: TaggedSentence, scheme: Scheme, place: Path) -> TaggedSentence:
    """Convert a sentence's labels to `scheme`, if they are in another.

    Raises:
        InputError: the labels follow no scheme, or cannot be converted; names the place.
    """
    try:
        labels = convert_labels(sentence.labels, sentence.scheme, scheme)
    except InputError as error:
        raise InputError(f"{place}:{sentence.row}: {error}") from None
    if sentence.scheme == scheme:
        return sentence
    return replace(sentence, labels=tuple(labels), scheme=scheme)


def scheme_note(
    found: Scheme, learnt: Scheme, num_illegal: int, *, repaired: bool, remarks: Counter[Remark]
) -> str:
    """Describe the scheme of the training labels, and repairs."""
    notes = [] if learnt == "plain" else [learnt if found == learnt else f"{learnt} for {found}"]
    if num_illegal:
        done = "repaired" if repaired else "learnt as they are"
        notes.append(f"{num_illegal:,} sentences break {found}, {done}")
    told: tuple[Remark, ...] = ("comments", "joined_documents")
    notes += [REMARKS[name].format(remarks[name]) for name in told if remarks[name]]
    return f" ({'; '.join(notes)})" if notes else ""


def listed(names: Sequence[str]) -> str:
    """Join label names for a message; at most ten are shown."""
    more = f", … ({len(names)} in all)" if len(names) > 10 else ""
    return ", ".join(f"'{name}'" for name in names[:10]) + more


TASK = Tag
