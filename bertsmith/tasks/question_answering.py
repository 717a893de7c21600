"""Extractive question answering: the span of a passage that answers a question.

The model is BERT's encoder with two vectors that score every token as the start and as the end of
the answer (Devlin et al. 2019, sections 4.2 and 4.3). A passage that is too long is read in
windows, overlapping parts. In training each window is an example of its own; if it lacks the
answer, [CLS] is the target. As an answer, [CLS] stands for "no answer". The no-answer score is the
sum of the two logits of [CLS] minus that of the best span.
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.columns import QuestionColumns
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.question_windows import (
    answer_lengths,
    begins_or_ends_inside_token,
    encode_questions,
    label_windows,
    offsets_of,
    shortest_answer,
)
from bertsmith.data.squad import Question, QuestionReader
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windowing import LongTexts, Windowing
from bertsmith.errors import ConfigError, ExamplesError, SettingError, option
from bertsmith.metrics.answer_report import AnswerReport, summarize_answers
from bertsmith.metrics.answers import (
    INFINITE_SCORE,
    Language,
    QuestionScores,
    answer_or_none_scores,
    find_language,
)
from bertsmith.model.bert import BertModel
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.bounds import check_choice
from bertsmith.system.counts import line_with_count
from bertsmith.tasks.answer_baselines import AnswerBaselines
from bertsmith.tasks.answer_prediction import (
    NO_ANSWER_TEXT,
    PASSAGE_CHARACTERS,
    AnswerPrediction,
    collapse_spaces,
    one_line,
)
from bertsmith.tasks.answer_search import Scores, best_answers
from bertsmith.tasks.logits import token_logits
from bertsmith.tasks.marks import RIGHT, WRONG, Mark, MarkedPart, mark_spans
from bertsmith.tasks.prediction import text_field
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings.answer import AnswerSettings
from bertsmith.tasks.soft_targets import soft_class_loss
from bertsmith.tasks.task import Task, jsonl
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

MAX_ANSWER_LENGTH = 30
"""Largest number of tokens of an answer, as in the released code for SQuAD."""
LENGTH_QUANTILE = 0.99
"""Fraction of the training answers that the default `max_answer_length` allows, even if they are
longer than `MAX_ANSWER_LENGTH`."""


def answers_by_id(pairs: Iterable[tuple[Question, AnswerPrediction]]) -> Iterator[str]:
    """Format one JSON object that maps each question's id to its answer.

    The official scorers of SQuAD expect this format.
    """
    separator = "{"
    for question, prediction in pairs:
        name = json.dumps(question.id, ensure_ascii=False)
        answer = json.dumps(prediction.answer, ensure_ascii=False)
        yield f"{separator}\n{name}: {answer}"
        separator = ","
    yield "\n}\n" if separator == "," else "{}\n"


class AnswerAccumulator(PredictionCounts):
    """Accumulator of answer scores, 27 bytes per answer.

    Args:
        language: language whose rules compare texts: "zh" by characters, "en" by words, as for all
            languages with spaces.
        may_abstain: whether the model may give no answer.
        threshold: no-answer score above which an answer counts as "no answer"; if None and the
            model may abstain, the best threshold for these questions is used, or 0 if all of them
            have an answer.
        long_texts: treatment of passages that were too long.
        max_answer_length: largest number of tokens of a predicted answer.
    """

    def __init__(
        self,
        language: Language,
        may_abstain: bool,
        threshold: float | None,
        long_texts: LongTexts = "window",
        max_answer_length: int = MAX_ANSWER_LENGTH,
    ) -> None:
        self.questions = QuestionScores(language)
        self.may_abstain = may_abstain
        self.threshold = threshold
        self.long_texts = long_texts
        self.max_answer_length = max_answer_length
        self.no_answer_scores = array("d")
        self.losses = array("d")
        # Right answers that were found elsewhere than the file says, and those found nowhere.
        self.num_moved = 0
        self.num_lost = 0
        # Questions that are blank or have a blank passage; questions all of whose right answers
        # have too many tokens to be predicted, or begin or end inside a token.
        self.num_empty = 0
        self.num_too_long = 0
        self.num_inside_token = 0

    def add(self, examples: Sequence[Question], predictions: Sequence[AnswerPrediction]) -> None:
        for example, prediction in zip(examples, predictions, strict=True):
            # The best span even if the prediction is "no answer": `result` applies the threshold.
            self.questions.add(prediction.best.text, [answer.text for answer in example.answers])
            self.no_answer_scores.append(prediction.no_answer_score)
            if prediction.loss is not None:
                self.losses.append(prediction.loss)
            self.num_moved += sum(answer.is_moved for answer in example.answers)
            # An answer that does not occur in its passage has no start.
            self.num_lost += sum(answer.start is None for answer in example.answers)
            self.num_empty += example.is_empty
            self.num_too_long += prediction.is_right_too_long
            self.num_inside_token += prediction.is_right_inside_token
        self.count(predictions)

    def compute_metrics(self) -> dict[str, float]:
        """Compute mean cross entropy, exact match and F1.

        Scores are from 0 to 1; `accuracy` is another name of exact match. `loss` is missing if the
        questions were encoded without targets.
        """
        scores = self.result().overall
        return {
            **({"loss": sum(self.losses) / len(self.losses)} if self.losses else {}),
            "accuracy": scores.exact_match / 100,
            "f1": scores.f1 / 100,
            "exact_match": scores.exact_match / 100,
        }

    def result(self, num_skipped: int = 0) -> AnswerReport:
        """Compute all scores, by the rules of SQuAD 2.0 if a question has no answer, else 1.1."""
        has_unanswerable = self.questions.has_unanswerable
        needs_threshold = has_unanswerable or self.may_abstain
        threshold: float | Literal["best"] | None = self.threshold
        if threshold is None and self.may_abstain:
            # Without unanswerable questions the best threshold would keep all answers, and tell
            # nothing of others. At 0 the likelier one of "no answer" and the best span is given.
            threshold = "best" if has_unanswerable else 0.0
        report = summarize_answers(
            self.questions,
            protocol="2.0" if has_unanswerable else "1.1",
            # Differences of logits, which are compared with thresholds as probabilities are.
            no_answer_probs=self.no_answer_scores if needs_threshold else None,
            threshold=threshold,
            lowest=-INFINITE_SCORE,  # a threshold below all differences of logits
        )
        return replace(
            report,
            **self.counts(num_skipped),
            num_moved=self.num_moved,
            num_lost=self.num_lost,
            num_empty=self.num_empty,
            num_too_long=self.num_too_long,
            num_inside_token=self.num_inside_token,
            max_answer_length=self.max_answer_length,
            long_texts=self.long_texts,
        )


@dataclass(frozen=True)
class Answer(Task[Question, AnswerPrediction]):
    """Extractive question answering, with "no answer" if `may_abstain`."""

    may_abstain: bool = False
    """Whether some training questions had no answer."""
    threshold: float | None = None
    """Largest no-answer score at which an answer is given. Training sets it to the best one for the
    eval questions; None counts as 0."""
    windowing: Windowing = Windowing()  # noqa: RUF009 - frozen
    """Treatment of long passages: windows, or a cut."""
    max_answer_length: int = MAX_ANSWER_LENGTH
    """Largest number of tokens of a predicted answer."""
    language: Language = "en"
    """Language by whose rules predicted answers are compared with right answers."""

    titles = ("answer", "probability", "question", "passage")  # of the columns of predictions
    name = "answer"  # of the command, and of the loss among a run's metrics
    baselines = AnswerBaselines()
    noun = "question"  # of an example, in messages
    settings = AnswerSettings
    columns = QuestionColumns
    heads = ("answer",)
    stored = ("may_abstain", "threshold", "max_answer_length", "language")  # kept in config.json
    pipeline = "question-answering"
    example_type = Question
    fields = ("question", "context")  # the keys of an example that is given as a dictionary
    texts_per_example = 2
    formats: ClassVar = {".jsonl": jsonl, ".json": answers_by_id}  # of files of predictions
    cell_types: ClassVar = {"answer": str, "probability": float}  # columns added to a table
    rows_stay_together = False  # each window is a training example of its own
    reads_tokens = True  # the head gives logits of every token

    def __post_init__(self) -> None:
        check_choice("language", self.language, get_args(Language))
        if not (
            isinstance(self.max_answer_length, int | np.integer) and self.max_answer_length > 0
        ):
            raise SettingError(
                "max_answer_length", self.max_answer_length, "a whole number above 0"
            )
        if self.threshold is None:
            return
        if not self.may_abstain:
            raise ConfigError(
                f"{option('threshold')}: found {self.threshold}, but this model always answers. "
                "Leave it out, or give may_abstain=True too."
            )
        # Finite, since config.json, to which it is saved, has no other numbers.
        if not isinstance(self.threshold, int | float) or not isfinite(self.threshold):
            raise SettingError("threshold", self.threshold, "a finite number")

    @classmethod
    def check_train(cls, examples: Sequence[Question], settings: AnswerSettings) -> None:
        """Check that at least one question has an answer that occurs in its passage.

        Raises:
            ExamplesError: no question has one.
        """
        answers = [answer for question in examples for answer in question.answers]
        if all(answer.start is None for answer in answers):
            raise ExamplesError(
                f"{settings.train}: none of the {len(examples):,} questions has an answer that "
                "occurs in its passage. Give some questions that have one."
            )

    @classmethod
    def of_examples(cls, train: list[Question], settings: AnswerSettings) -> Self:
        return cls(
            may_abstain=not all(question.answers for question in train),
            windowing=settings.windowing,
            max_answer_length=settings.max_answer_length or MAX_ANSWER_LENGTH,
            language=find_language(
                [answer.text for answer in question.answers] for question in train
            ),
        )

    def with_model(
        self, folder: ModelFolder, settings: AnswerSettings, train: Sequence[Question]
    ) -> Self:
        """Return a copy whose `max_answer_length` fits nearly all answers of training."""
        if settings.max_answer_length is not None:  # the user's choice
            return self
        # `exact_from`: much shorter answers, whose lengths do not matter, may be counted roughly.
        lengths = list(answer_lengths(folder.tokenizer, train, exact_from=MAX_ANSWER_LENGTH))
        longest = int(np.quantile(lengths, LENGTH_QUANTILE, method="higher"))
        return replace(self, max_answer_length=max(MAX_ANSWER_LENGTH, longest))

    @classmethod
    def reader(
        cls, source: ExampleSource, columns: QuestionColumns | None, *, labelled: bool
    ) -> QuestionReader:
        """Open the questions of a file, with their answers if `labelled`; `columns` is empty."""
        return QuestionReader(source, labelled=labelled)

    def example(self, record: Mapping[str, Any]) -> Question:
        question, context = (text_field(record, name) for name in self.fields)
        row = record.get("row", 0)
        return Question(str(record.get("id", row)), question, context, row=row)

    def with_threshold(self, evaluation: AnswerReport) -> Self:
        return replace(self, threshold=evaluation.threshold)

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Question], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode a row for each window.

        Targets: `start_positions` and `end_positions`, int64 `[rows]`.
        """
        encoded = encode_questions(tokenizer, examples, max_length, self.windowing)
        if not labelled:
            return encoded
        labels = label_windows(examples, encoded)
        targets = {"start_positions": labels.start_positions, "end_positions": labels.end_positions}
        return replace(encoded, row_targets=targets)

    def notes(self, examples: Sequence[Question], encoded: EncodedExamples) -> list[str]:
        """Count the training answers that were moved, not found or cut, or are not whole tokens."""
        labels = label_windows(examples, encoded)
        answers = [answer for example in examples for answer in example.answers]
        num_moved = sum(answer.is_moved for answer in answers)
        num_empty = sum(example.is_empty for example in examples)
        # The length of the answer in each window. A window without the answer has the target [CLS],
        # one token.
        lengths = labels.end_positions - labels.start_positions + 1
        questions_of_windows = encoded.example_of_row()
        num_long = len(set(questions_of_windows[lengths > self.max_answer_length].tolist()))
        num_inside_token = sum(
            begins_or_ends_inside_token(example, offsets_of(encoded, number))
            for number, example in enumerate(examples)
        )
        longer = f"longer than {self.max_answer_length} tokens and cannot be predicted"
        raised_limit = option("max_answer_length", int(lengths.max()))
        moved = "found at another offset, or with other white space, than the file says"
        # A predicted answer lies within one window, however long answers may be.
        largest_window = max((window.size for window in encoded.alignment), default=0)
        longest_predicted = min(self.max_answer_length, largest_window)
        window_decides = longest_predicted < self.max_answer_length
        deciding_option = option("max_length" if window_decides else "max_answer_length")
        long_answers = (
            f"answers are long, so predicted ones may have up to {longest_predicted} tokens "
            f"({deciding_option})"
        )
        # Each line begins with a count; there is none for a count of 0.
        return [
            *([long_answers] if longest_predicted > MAX_ANSWER_LENGTH else []),
            *line_with_count(num_moved, f"answer was {moved}", f"answers were {moved}"),
            *line_with_count(
                sum(answer.start is None for answer in answers),
                "answer does not occur in its passage",
                "answers do not occur in their passage",
            ),
            *line_with_count(
                num_long,
                f"answer is {longer} ({raised_limit} allows it)",
                f"answers are {longer} ({raised_limit} allows all)",
            ),
            *line_with_count(
                num_inside_token,
                "question has only answers that begin or end inside a token; predicted answers are "
                "whole tokens",
                "questions have only answers that begin or end inside a token; predicted answers "
                "are whole tokens",
            ),
            *line_with_count(
                labels.num_cut,
                "window cuts an answer and is trained as 'no answer'; a larger "
                f"{option('max_length')} helps",
                "windows cut an answer and are trained as 'no answer'; a larger "
                f"{option('max_length')} helps",
            ),
            *line_with_count(
                labels.num_unreachable,
                "question has an answer that is whole in no window; a larger "
                f"{option('max_length')} helps",
                "questions have an answer that is whole in no window; a larger "
                f"{option('max_length')} helps",
            ),
            *line_with_count(
                num_empty,
                "question or its passage is empty",
                "questions or their passages are empty",
            ),
        ]

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Average the cross entropy of start and end, and sum it over windows.

        This loss is that of Devlin et al. 2019, section 4.2. `outputs` are fp32 logits
        `[tokens, 2]`. `correct` counts the windows in which start and end are both right.
        """
        logits = padded_logits(outputs, batch)
        # In training each window is an example of its own. The batch has the targets in the order
        # of its examples, and the sequences by length: `example` is the example of each sequence.
        windows = batch.targets["example"]
        starts = batch.targets["start_positions"][windows]
        ends = batch.targets["end_positions"][windows]
        start_loss = F.cross_entropy(logits[..., 0], starts, reduction="sum")
        end_loss = F.cross_entropy(logits[..., 1], ends, reduction="sum")
        likeliest = logits.argmax(1)
        return LossTerm(
            sum=(start_loss + end_loss) / 2,
            correct=((likeliest[:, 0] == starts) & (likeliest[:, 1] == ends)).sum(),
            count=len(starts),
        )

    def distillation_loss(
        self, outputs: Tensor, teacher_outputs: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the mean divergence of start and end probabilities, summed over windows.

        `outputs` and `teacher_outputs` are fp32 logits `[tokens, 2]`. A window agrees with the
        teacher if student and teacher have the same likeliest start and the same likeliest end.
        """
        logits = padded_logits(outputs, batch)
        teacher_logits = padded_logits(teacher_outputs, batch)
        start_loss, _ = soft_class_loss(logits[..., 0], teacher_logits[..., 0], temperature)
        end_loss, _ = soft_class_loss(logits[..., 1], teacher_logits[..., 1], temperature)
        agrees = (logits.argmax(1) == teacher_logits.argmax(1)).all(1)
        return (start_loss + end_loss) / 2, agrees.sum()

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute logits of start and end in batch order, fp32 `[tokens, 2]`."""
        return token_logits(model, batch, "answer")

    def decode(
        self,
        outputs: list[NDArray[np.float32]],
        encoded: EncodedExamples,
        examples: Sequence[Question],
    ) -> list[AnswerPrediction]:
        """Find the best answers of each question among the spans of all its windows.

        If `encoded` has targets, predictions also hold the loss. `outputs` holds an array for each
        window: logits of start and end, `[tokens, 2]`.
        """
        candidates = best_answers(outputs, encoded, self.max_answer_length)
        # A prediction without a threshold always answers.
        threshold = (self.threshold or 0.0) if self.may_abstain else None
        losses = mean_losses(outputs, encoded)
        num_windows = encoded.num_windows
        predictions = []
        for index, example in enumerate(examples):
            offsets = offsets_of(encoded, index)  # of the passage's tokens, in characters
            predictions.append(
                AnswerPrediction(
                    example.context,
                    candidates[index],
                    threshold,
                    is_truncated=encoded.num_cut[index] > 0,
                    num_windows=num_windows[index],
                    loss=losses[index],
                    is_right_too_long=shortest_answer(example, offsets) > self.max_answer_length,
                    is_right_inside_token=begins_or_ends_inside_token(example, offsets),
                )
            )
        return predictions

    def accumulator(self, path: Path) -> AnswerAccumulator:
        return AnswerAccumulator(
            self.language,
            self.may_abstain,
            self.threshold,
            self.windowing.long_texts,
            self.max_answer_length,
        )

    group_nouns = "different passages"  # of the groups of `fold_keys`, in messages

    def fold_keys(self, example: Question) -> tuple[Any, Any]:
        """Return the keys of a question's group and stratum for cross-validation.

        The group, which stays in one fold, is the passage, since its questions reveal each other's
        answers. The two strata, questions with and without an answer, are spread over all folds.
        """
        return example.context, bool(example.answers)

    def describe_target(self) -> str:
        return "with answers or none" if self.may_abstain else "with answers"

    def outcome(self, example: Question, prediction: AnswerPrediction) -> Outcome:
        """Score the answer by F1; only an exact match counts as right."""
        answers = [answer.text for answer in example.answers]
        exact, f1 = answer_or_none_scores(prediction.answer, answers, self.language)
        passage = "".join(collapse_spaces(part.text) for part in prediction.parts())
        marks = [
            Mark(answer.start, answer.stop, label="right answer", color=RIGHT)
            for answer in example.answers
            if answer.start is not None and answer.stop is not None
        ]
        if prediction.is_answered:  # first in the list, so that it is marked whole
            best = prediction.best
            # In the color of wrong answers, since pages show `parts` of those alone.
            mark = Mark(best.start, best.end, label="model's answer", color=WRONG)
            marks.insert(0, mark)
        return Outcome(
            text=f"{one_line(example.question)} {passage}",
            gold=" | ".join(dict.fromkeys(answers)) or NO_ANSWER_TEXT,
            predicted=prediction.answer or NO_ANSWER_TEXT,
            score=f1,
            confidence=prediction.probability,
            is_exact=bool(exact),
            parts=[
                MarkedPart(f"{one_line(example.question)} — "),
                *mark_spans(example.context, marks, PASSAGE_CHARACTERS),
            ],
        )


def padded_logits(logits: Tensor, batch: Batch) -> Tensor:
    """Divide packed logits `[tokens, 2]` into sequences, `[sequences, longest, 2]`.

    Shorter sequences are padded with minus infinity.
    """
    lengths = logits.new_tensor(batch.lengths, dtype=batch.position_ids.dtype)
    # The sequence of each token; `position_ids` are the tokens' positions in their sequences.
    rows = lengths.new_tensor(range(batch.num_sequences)).repeat_interleave(lengths)
    padded = logits.new_full((batch.num_sequences, max(batch.lengths), 2), -inf)
    return padded.index_put((rows, batch.position_ids), logits)


def mean_losses(logits: Sequence[Scores], encoded: EncodedExamples) -> Sequence[float | None]:
    """Compute each question's loss, the mean over its windows.

    Without targets, the result has None for each question.

    `logits` holds an array for each window, `[tokens, 2]`. The loss of a window is the mean of the
    cross entropies of its start and its end.
    """
    if not encoded.row_targets:
        return [None] * len(encoded)
    starts = encoded.row_targets["start_positions"]
    ends = encoded.row_targets["end_positions"]
    targets = torch.from_numpy(np.stack([starts, ends], axis=1))
    losses = np.array(
        [
            # Two rows of logits over the tokens, for the start and the end.
            F.cross_entropy(torch.from_numpy(window_logits).T, start_and_end).item()
            for window_logits, start_and_end in zip(logits, targets, strict=True)
        ]
    )
    windows_of_questions = pairwise(encoded.starts.tolist())
    return [float(losses[first:stop].mean()) for first, stop in windows_of_questions]


TASK = Answer  # imported by catalog.py, which names this module
