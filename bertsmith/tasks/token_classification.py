"""Token classification: a label for each word, such as names, parts of speech or word bounds.

The model is BERT's encoder with a linear layer on the first token of each word (Devlin et al.
2019, section 5.3), trained by cross entropy. Sentences that are too long for the model are read in
overlapping windows. In training and in prediction, a word is labelled in the window that has most
of its context, so each word counts once in the loss.

Labels follow a *scheme*, such as IOB2, in which B-PER begins a span of words of the type PER. In
the scheme "plain", a label describes one word. A label that breaks its scheme is *illegal*.
"""

import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.columns import TagColumns
from bertsmith.data.encoded_examples import IGNORE_INDEX, EncodedExamples
from bertsmith.data.encoded_texts import as_list, check_string
from bertsmith.data.json_rows import list_names
from bertsmith.data.label_remarks import look_alike
from bertsmith.data.label_schemes import (
    OUTSIDE,
    Scheme,
    convert_labels,
    count_illegal,
    detect_scheme,
)
from bertsmith.data.label_values import LabelKind, label_values
from bertsmith.data.tagged import REMARKS, Remark, TaggedSentence
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.tagged_objects import parse_line
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windowing import Windowing
from bertsmith.data.word_rows import RowWords, encode_words, label_pieces
from bertsmith.errors import ConfigError, ExamplesError, InputError, option
from bertsmith.model.bert import BertModel
from bertsmith.system.bounds import check_choice
from bertsmith.system.counts import count_noun, line_with_count
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.logits import token_logits
from bertsmith.tasks.losses import ClassLoss, class_loss
from bertsmith.tasks.marks import WRONG, Mark, mark_spans
from bertsmith.tasks.prediction import single_text
from bertsmith.tasks.probabilities import softmax64
from bertsmith.tasks.scoring import Outcome
from bertsmith.tasks.settings.tag import TagSettings
from bertsmith.tasks.soft_targets import soft_class_loss
from bertsmith.tasks.tag_prediction import (
    TagAccumulator,
    TagPrediction,
    conll,
    conllu,
    label_numbers,
    with_scheme,
)
from bertsmith.tasks.tagged_text import span_types
from bertsmith.tasks.task import Task, jsonl
from bertsmith.tasks.word_baselines import WordBaselines
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.words import WordRule, find_words
from bertsmith.training.objective import LossTerm

LONG_LONE_SENTENCE = 200
"""If a file has one sentence with this many words or more, it seems to lack empty lines."""
CHARACTER_SHARE = 0.99
"""If at least this share of the words are single characters, a file seems to have a character on
each line, not a word. A few characters of such a file may consist of several code points."""
# Parts of remarks on the training examples.
SPLIT_ADVICE = f" ({option('split', 'characters')} labels each character)"
NUMBERS_NOTE = "the labels are numbers, so each is for one word; entities need names, such as B-PER"
CHARACTERS_NOTE = f"the words are single characters, but new text is split into words{SPLIT_ADVICE}"


@dataclass(frozen=True)
class Tag(Task[TaggedSentence, TagPrediction]):
    """Labelling of words by `labels`, which follow `scheme`."""

    labels: tuple[str, ...] = ()
    scheme: Scheme = "plain"
    split: WordRule = "words"
    """Rule by which running text is split into words."""
    windowing: Windowing = Windowing()  # noqa: RUF009 - frozen
    """Treatment of long sentences, which are always read in windows."""
    repair: bool = False
    """Whether predicted labels that break the scheme are replaced by legal ones."""
    strict: bool = False
    """Whether scores count only the spans that follow the scheme."""
    loss: ClassLoss = ClassLoss()  # noqa: RUF009 - frozen
    """The loss, with the class weights that the user asked for."""
    note: str = field(default="", compare=False)
    """Remark on the labels, shown beside their number."""
    label_kind: LabelKind | None = None
    """The type of labels that were passed in memory; None if they were strings."""

    titles = ("text, with its labels",)  # of the column of predictions
    name = "tag"  # of the command, and of the loss among a run's metrics
    baselines = WordBaselines()
    noun = "sentence"  # of an example, in messages
    settings = TagSettings
    columns = TagColumns  # the options for reading a file
    kept_columns = ("repair", "strict")  # options that are fields of the task, too
    heads = ("tag",)
    stored = ("scheme", "split")  # the fields that are kept in config.json
    pipeline = "token-classification"
    example_type = TaggedSentence
    fields = ("text",)  # the key of an example that is given as a dictionary
    formats: ClassVar = {  # of files of predictions, by the ending of the name
        ".jsonl": jsonl,
        ".conll": conll,
        ".conllu": conllu,
    }
    rows_stay_together = False  # each window is a training example of its own
    reads_tokens = True  # the head gives logits of every token

    def __post_init__(self) -> None:
        check_choice("scheme", self.scheme, get_args(Scheme))
        check_choice("split", self.split, get_args(WordRule))

    @classmethod
    def select(cls, examples: list[TaggedSentence], settings: TagSettings) -> list[TaggedSentence]:
        """Select the sentences to train on from those that have words.

        Raises:
            ExamplesError: no sentence has words.
        """
        with_words = [sentence for sentence in examples if sentence.words]
        if not with_words:
            raise ExamplesError(
                f"{settings.train}: no sentence with words in it. Give a file with at least one."
            )
        return super().select(with_words, settings)

    @classmethod
    def check_train(cls, examples: Sequence[TaggedSentence], settings: TagSettings) -> None:
        """Check that there are two labels or more.

        Raises:
            ExamplesError: there is only one label.
        """
        names = sorted({label for sentence in examples for label in sentence.labels})
        if len(names) < 2:
            raise ExamplesError(
                f"{settings.train}: the only label is {list_names(names)}. Give sentences with two "
                f"or more, or choose the column with {option('label_column')}."
            )

    @classmethod
    def of_examples(cls, train: list[TaggedSentence], settings: TagSettings) -> Self:
        """Build the task from training sentences, with their labels in the scheme to learn."""
        file_scheme = train[0].scheme  # all sentences of a file have one scheme
        columns = settings.columns
        # In IOB1 the beginning of an entity is hard to predict (`TagSettings.learn`).
        scheme = settings.learn or ("IOB2" if file_scheme == "IOB1" else file_scheme)
        counts: Counter[str] = Counter()
        remarks: Counter[Remark] = Counter()
        num_illegal = 0
        for sentence in train:
            counts.update(with_scheme(sentence, scheme, settings.train).labels)
            remarks.update(sentence.remarks)
            was_illegal = "repaired" in sentence.remarks  # when it was read, with `--repair`
            if was_illegal or count_illegal(sentence.labels, sentence.scheme) > 0:
                num_illegal += 1
        names = tuple(sorted(counts))
        task = cls(
            names,
            scheme,
            windowing=settings.windowing,
            loss=class_loss(settings, names, np.array([counts[name] for name in names])),
            note=scheme_note(
                file_scheme, scheme, num_illegal, repaired=columns.repair, remarks=remarks
            ),
        )
        return task.with_columns(columns)

    def check_held_out(self, examples: Sequence[TaggedSentence], settings: TagSettings) -> None:
        """Check that the labels of eval examples can be scored.

        Raises:
            InputError: the labels follow no scheme, or there is no entity to score by F1 (the error
                is then an `ExamplesError`).
        """
        for sentence in examples:
            with_scheme(sentence, self.scheme, settings.eval)  # an error if they follow no scheme
        # O is the label of a word outside of all spans.
        has_spans = any(label != OUTSIDE for sentence in examples for label in sentence.labels)
        if self.scheme != "plain" and settings.metric != "accuracy" and not has_spans:
            raise ExamplesError(
                f"{settings.eval}: no label but {OUTSIDE}, so F1 has nothing to score. Give "
                f"sentences with entities, or {option('metric', 'accuracy')}."
            )

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from a folder; if it names no scheme, detect it from the labels."""
        settings = loaded.model.task_settings
        task = super().restore(loaded)
        return replace(
            task,
            labels=loaded.labels,
            scheme=settings.get("scheme") or scheme_of_names(loaded.labels),
            label_kind=settings.get("label_kind"),
        )

    @property
    def label_values(self) -> tuple[Any, ...]:
        """The labels with the type that they had in training, in the order of `labels`."""
        return label_values(self.labels, self.label_kind)

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings in config.json, among them the type of the labels."""
        kind = {} if self.label_kind is None else {"label_kind": self.label_kind}
        return super().task_settings | kind

    def with_columns(self, columns: TagColumns | None) -> Self:
        """Return a copy with the options `split`, `repair` and `strict` of `columns`."""
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
        """Open the sentences of a file; without labels, print the format that was guessed."""
        columns = replace(columns or TagColumns(), split=self.with_columns(columns).split)
        reader = TaggedReader(source, columns, labelled=labelled)
        if not labelled and (note := reader.describe_guessed_format()):
            print(note, file=sys.stderr)
        return reader

    def example(self, record: Mapping[str, Any]) -> TaggedSentence:
        """Build a sentence from a `text`, split as in training, or from its `words`.

        Raises:
            InputError: the record has neither, or a text or word is not a string.
        """
        row = record.get("row", 0)
        words = record.get("words")
        value = record.get("text") if words is None else words
        # A text, or neither, which `single_text` refuses by name.
        if words is None and isinstance(value, str | None):
            return parse_line(row, single_text(record), TagColumns(split=self.split))
        words = as_list(value, "words", example="a string, or a list of words")
        for index, word in enumerate(words):
            check_string(f"word {index}", word)
        return TaggedSentence(tuple(words), row=row)

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

        Raises:
            ConfigError: long texts are to be cut, or neighbouring windows would overlap by more
                than half of a row.
            InputError: labels follow no scheme, or cannot be converted to the task's.
        """
        if self.windowing.long_texts == "cut":
            raise ConfigError(
                f"{option('long_texts')}: found cut; tag allows only window, since every word gets "
                "a label."
            )
        words = (example.words for example in examples)
        encoded = encode_words(tokenizer, words, max_length, self.windowing)
        if labelled:
            labels = [
                label_numbers(
                    with_scheme(sentence, self.scheme, CHECKED_EXAMPLES).labels, self.labels
                )
                for sentence in examples
            ]
        else:
            # A student learns the teacher's labels at the first token of each word. Label 0 marks
            # these tokens; its value is not read.
            labels = [np.zeros(len(example.words), dtype=np.int64) for example in examples]
        # Other tokens than the first one of a word get the label -100, which losses ignore.
        return replace(encoded, token_targets={"labels": label_pieces(encoded, labels)})

    def num_predictions(self, batch: Batch, *, distilled: bool = False) -> int:
        """Count words with a label; at least 1, since losses are divided by this number."""
        return max(1, int((batch.targets["labels"] != IGNORE_INDEX).sum()))

    def notes(self, examples: Sequence[TaggedSentence], encoded: EncodedExamples) -> list[str]:
        """List remarks on training sentences that look like mistakes."""
        # Entities that begin or end within a word were extended to whole words.
        num_within = sum(sentence.remarks.count("misaligned_entities") for sentence in examples)
        are_numbers = all(label.isdecimal() for label in self.labels)
        alike = look_alike(self.labels)
        is_lone = len(examples) == 1 and len(examples[0].words) >= LONG_LONE_SENTENCE
        return [
            *([NUMBERS_NOTE] if are_numbers else []),
            *([alike] if alike else []),
            *([f"all {len(examples[0].words):,} words are one sentence"] if is_lone else []),
            *([CHARACTERS_NOTE] if self._seems_split(examples) else []),
            *line_with_count(
                num_within,
                f"entity ends within a word and labels all of it{SPLIT_ADVICE}",
                f"entities end within a word and label all of it{SPLIT_ADVICE}",
            ),
        ]

    def _seems_split(self, examples: Sequence[TaggedSentence]) -> bool:
        """Return whether new text is split into words, but the training text into characters."""
        return self.split == "words" and _are_split_characters(examples)

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Sum the loss over the words of the batch, each at its first token.

        `outputs` are fp32 logits `[tokens, labels]`.
        """
        labels = batch.targets["labels"]
        return LossTerm(
            sum=self.loss.sum(outputs, labels),
            correct=(outputs.argmax(-1) == labels).sum(),
            count=self.num_predictions(batch),
        )

    def with_teacher_labels(self, teacher: Self) -> Self:
        """Return a copy with the labels of `teacher`; labels of the examples keep their weights.

        Raises:
            ConfigError: the teacher does not know a label, or its labels follow another scheme.
        """
        if self.scheme != teacher.scheme:
            raise ConfigError(
                f"the labels of the examples would follow the scheme {self.scheme}, those of the "
                f"teacher follow {teacher.scheme}. Pass {option('learn', teacher.scheme)}."
            )
        loss = self.loss.with_labels(self.labels, teacher.labels)
        task = super().with_teacher_labels(teacher)
        return replace(task, loss=loss, label_kind=teacher.label_kind)

    def distillation_loss(
        self, outputs: Tensor, teacher_outputs: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the divergence of label probabilities, summed over words.

        `outputs` and `teacher_outputs` are fp32 logits `[tokens, labels]`; they are compared at the
        first token of each word.
        """
        first_tokens = (batch.targets["labels"] != IGNORE_INDEX).nonzero()[:, 0]
        return soft_class_loss(outputs[first_tokens], teacher_outputs[first_tokens], temperature)

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        return token_logits(model, batch, "tag")

    def decode(
        self,
        outputs: list[NDArray[np.float32]],
        encoded: EncodedExamples,
        examples: Sequence[TaggedSentence],
    ) -> list[TagPrediction]:
        """Choose the likeliest label of each word; with `repair`, illegal labels are replaced.

        `outputs` holds an array of logits for each row, `[tokens, labels]`.
        """
        predictions = []
        for index, example in enumerate(examples):
            # `alignment` has the words that are labelled in each row, and their first tokens.
            rows = [(encoded.alignment[row], outputs[row]) for row in encoded.rows_of(index)]
            predictions.append(self._decide(example, rows))
        return predictions

    def _decide(
        self, sentence: TaggedSentence, rows: Sequence[tuple[RowWords, NDArray[np.float32]]]
    ) -> TagPrediction:
        """Predict the labels of one sentence.

        Args:
            rows: for each window of the sentence, the words that it decides, and its logits.
        """
        probabilities = np.empty((len(sentence.words), len(self.labels)))
        for (words, first_tokens), logits in rows:
            probabilities[words] = softmax64(logits[first_tokens])
        labels = [self.labels[number] for number in probabilities.argmax(-1).tolist()]
        is_repaired = self.repair and count_illegal(labels, self.scheme) > 0
        if is_repaired:
            # To the same scheme: the spans stay, and get legal labels.
            labels = convert_labels(labels, self.scheme, self.scheme)
        return TagPrediction(
            sentence=sentence,
            label_names=tuple(labels),
            probabilities=probabilities,
            names=self.labels,
            scheme=self.scheme,
            num_windows=len(rows),
            is_repaired=is_repaired,
            label_kind=self.label_kind,
        )

    def accumulator(self, path: Path) -> TagAccumulator:
        return TagAccumulator(self.labels, self.scheme, path, strict=self.strict)

    def outcome(self, example: TaggedSentence, prediction: TagPrediction) -> Outcome:
        """Score the share of words with the right label, and show the words with a wrong one.

        If all labels are right, all words are shown. The confidence is the product of the
        probabilities of all labels.
        """
        gold = with_scheme(example, self.scheme, CHECKED_EXAMPLES).labels
        wrong = [i for i, label in enumerate(gold) if label != prediction.label_names[i]]
        probabilities = prediction.label_probabilities
        shown = wrong or range(len(gold))
        arrows = [
            Mark(
                *example.offsets[i],
                label=f"{gold[i]} → {prediction.label_names[i]}",
                color=WRONG,
            )
            for i in wrong
        ]
        return Outcome(
            text=example.text,
            gold=" ".join(f"{example.words[i]}/{gold[i]}" for i in shown),
            predicted=" ".join(f"{example.words[i]}/{prediction.label_names[i]}" for i in shown),
            score=1.0 - len(wrong) / max(1, len(gold)),
            confidence=math.prod(probabilities) if probabilities else None,
            parts=mark_spans(example.text, arrows),
        )

    def labels_of(self, example: TaggedSentence) -> Collection[str]:
        """Return the types of a sentence's spans, such as PER, each of which a fold should have."""
        return span_types(example.labels, example.scheme)

    def fold_keys(self, example: TaggedSentence) -> tuple[Any, Any]:
        """Return the words, as equal sentences stay in one fold, and the types of the spans.

        Sentences with the same types are spread evenly over the folds.
        """
        return example.content, tuple(span_types(example.labels, example.scheme))

    def describe_target(self) -> str:
        return super().describe_target() + self.note


def _are_split_characters(sentences: Sequence[TaggedSentence]) -> bool:
    """Return whether the words are single characters, some of which form words in new text.

    A Chinese character is a word in new text, too; adjacent letters or digits form one word.
    """
    lengths = [len(word) for sentence in sentences for word in sentence.words]
    num_words = len(lengths)
    num_single = lengths.count(1)
    if num_single < CHARACTER_SHARE * num_words:
        return False
    for sentence in sentences:
        # A word of several characters becomes a space, which ends the words around it.
        text = "".join(word if len(word) == 1 else " " for word in sentence.words)
        if any(end - start > 1 for start, end in find_words(text)):
            return True
    return False


def scheme_of_names(names: Sequence[str]) -> Scheme:
    """Detect the scheme of label names; plain if a name, such as `[PAD]`, fits no scheme."""
    try:
        return detect_scheme([[name] for name in names])
    except InputError:
        return "plain"


def scheme_note(
    file_scheme: Scheme,
    model_scheme: Scheme,
    num_illegal: int,
    *,
    repaired: bool,
    remarks: Counter[Remark],
) -> str:
    """Describe the scheme of the training labels, and the repairs that were made.

    `num_illegal` counts the sentences with labels that break `file_scheme`. `repaired` says whether
    these were replaced when the file was read.
    """
    notes: list[str] = []
    if model_scheme != "plain":
        is_same = file_scheme == model_scheme
        notes.append(model_scheme if is_same else f"{file_scheme} converted to {model_scheme}")
    if num_illegal:
        treatment = "repaired" if repaired else "learned as given"
        broken = count_noun(num_illegal, "sentence breaks", "sentences break")
        notes.append(f"{broken} {file_scheme}, {treatment}")
    shown: tuple[Remark, ...] = ("comments", "joined_documents")
    notes += [line for name in shown for line in line_with_count(remarks[name], *REMARKS[name])]
    return f" ({'; '.join(notes)})" if notes else ""


TASK = Tag  # imported by catalog.py, which names this module
