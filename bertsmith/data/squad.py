"""Read questions about passages from SQuAD's files and rows of objects, one at a time.

SQuAD 1.1 and 2.0 are one format (Rajpurkar et al., 2016 and 2018). A question without answers is
unanswerable, whatever `is_impossible` says, as in the official scorer. An answer with a blank
text does not count. A line of `.jsonl`, a row of `.parquet` or an object in the list of a `.json`
is one question, as in the `datasets` library.

If the text of an answer is not at its offset, the passage is searched for it; answers that are
found elsewhere, and answers that are not found, are counted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bertsmith.data.json_rows import get_value
from bertsmith.data.json_stream import holds_list, iter_elements
from bertsmith.data.objects import ObjectFormat, read_objects
from bertsmith.data.reader import Reader
from bertsmith.data.sources import check_not_packed, ending_in_words, ending_of
from bertsmith.data.text_files import STANDARD_INPUT, ExampleSource, check_is_file, name_source
from bertsmith.errors import InputError

ADVICE_ON_LINES = (
    "For questions, each line must be an object with a question and its passage, such as "
    '{"question": "Who ...?", "context": "The passage ..."}.'
)

QuestionFormat = ObjectFormat | Literal["squad"]
"""A .json file has the format `squad` if it holds one object, and `json` if it holds a list."""


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """An answer to a question, and its position in the context."""

    text: str
    """The text of the answer as it is in the file, for scores."""
    start: int | None
    """Index of the answer's first character in the context; None if the context does not hold the
    answer, or the file does not say where it is."""
    is_moved: bool = False
    """Whether the answer is elsewhere than the file says, or has other white space."""
    size: int | None = None
    """Number of the answer's characters in the context, if it has other white space there."""

    @property
    def stop(self) -> int | None:
        """End of the answer in the context, exclusive."""
        size = len(self.text) if self.size is None else self.size
        return None if self.start is None else self.start + size


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its passage (`context`), and the correct answers.

    Questions of one paragraph share one `context` object. `location` says for messages where the
    question is in its file; `row` is the number of the question among all that were read, from 1.
    """

    id: str
    question: str
    context: str
    answers: tuple[GoldAnswer, ...] = ()
    location: str = ""
    row: int = 0

    @property
    def content(self) -> tuple[str, str]:
        """The input of a model; examples with equal inputs are duplicates."""
        return self.question, self.context

    @property
    def is_empty(self) -> bool:
        """Whether question or passage is blank, so that there is no answer to find."""
        return not (self.question.strip() and self.context.strip())

    def to_json(self) -> dict[str, Any]:
        """Return number, id and question, without the passage, which is long."""
        return {"row": self.row, "id": self.id, "question": self.question}


class QuestionReader(Reader[Question]):
    """Lazy reader of a file's questions.

    It keeps the ids of all questions in memory, to refuse an id that comes twice.

    Args:
        source: `.json` in SQuAD's format, or one question a row in `.jsonl`, `.parquet` or a list
            in `.json`; also as .gz, .xz or .zst; or rows in memory. `STANDARD_INPUT` is read as
            `.jsonl`.
        labelled: whether answers are read.
        needs_offsets: whether each answer must have an offset; scores do not need offsets.

    Attributes:
        num_questions: number of questions read so far.
        num_moved: number of answers that are elsewhere than the file says.
        num_lost: number of answers that have an offset, but are nowhere in the context.
        num_empty: number of questions that are blank or have a blank context.
    """

    def __init__(
        self, source: ExampleSource, *, labelled: bool = True, needs_offsets: bool = True
    ) -> None:
        self.source = source
        self.name = name_source(self.source)
        self.labelled = labelled
        self.needs_offsets = needs_offsets
        self._reset_counts()

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions.

        Raises:
            InputError: the file cannot be read as questions (the message says where), an id comes
                twice, or there is no question. Also, with `labelled`, if no question has an answer
                or says `is_impossible`: a model that never answers would be always right.
        """
        self._reset_counts()
        file_format = question_format(self.source)
        questions = self._read_squad() if file_format == "squad" else self._read_rows(file_format)
        # Questions are held back until one has an answer or says that it has none.
        waiting: list[Question] = []
        for question in questions:
            self._count(question)
            waiting.append(replace(question, row=self.num_questions))
            if self._is_answered:
                yield from waiting
                waiting = []
        if not self.num_questions:
            raise InputError(f"{self.name}: no questions. Give at least one.")
        if not self._is_answered:
            raise InputError(
                f"{self.name}: none of the {self.num_questions:,} questions has an answer, and "
                'none says "is_impossible": true. Give right answers, under "answers".'
            )

    def _reset_counts(self) -> None:
        self.num_questions = self.num_moved = self.num_lost = self.num_empty = 0
        self._ids: set[str] = set()
        # Whether a question has an answer or says that it has none; if none are read, no matter.
        self._is_answered = not self.labelled

    def _count(self, question: Question) -> None:
        """Count a question; refuse an id that an earlier question has."""
        if question.id in self._ids:
            raise InputError(
                f"{self._locate(question.location)}: the id '{question.id}' belongs to an earlier "
                "question too. Give each question an id of its own."
            )
        self._ids.add(question.id)
        self.num_questions += 1
        self.num_empty += question.is_empty

    def _read_squad(self) -> Iterator[Question]:
        assert isinstance(self.source, Path)
        for article_index, article in enumerate(iter_elements(self.source, "data")):
            article_location = f"data[{article_index}]"
            paragraphs = self._get(article, "paragraphs", list, article_location)
            for index, paragraph in enumerate(paragraphs):
                location = f"{article_location}.paragraphs[{index}]"
                yield from self._read_paragraph(paragraph, location)

    def _read_paragraph(self, paragraph: Any, location: str) -> Iterator[Question]:
        context = self._get(paragraph, "context", str, location)
        for index, record in enumerate(self._get(paragraph, "qas", list, location)):
            yield self._build_question(record, context, f"{location}.qas[{index}]")

    def _read_rows(self, file_format: ObjectFormat) -> Iterator[Question]:
        context = ""
        has_lines = isinstance(self.source, Path) and file_format == "jsonl"
        noun = "line" if has_lines else "row"
        for row, record in self._read_objects(file_format):
            location = f"{noun} {row}"
            passage = self._get(record, "context", str, location)
            # Neighbours with equal contexts share one string, whose tokens are then computed once.
            if passage != context:
                context = passage
            yield self._build_question(record, context, location, id_if_absent=location)

    def _read_objects(self, file_format: ObjectFormat) -> Iterator[tuple[int, Mapping[str, Any]]]:
        try:
            yield from read_objects(self.source, file_format)
        except InputError as error:
            if self.source != STANDARD_INPUT:
                raise
            fault = error.message.removeprefix(f"{self.name}:")
            raise InputError(f"{self.name}:{fault} {ADVICE_ON_LINES}") from None

    def _locate(self, location: str) -> str:
        """Return a location with the name of its file or rows, for messages."""
        is_file = isinstance(self.source, Path)
        return f"{self.name}: {location}" if is_file else f"{location} of {self.name}"

    def _build_question(
        self, record: Any, context: str, location: str, *, id_if_absent: str | None = None
    ) -> Question:
        has_id = id_if_absent is None or "id" in record
        question = Question(
            self._get_id(record, location) if has_id else str(id_if_absent),
            self._get(record, "question", str, location),
            context,
            tuple(self._read_answers(record, context, location)) if self.labelled else (),
            location,
        )
        self._is_answered |= bool(question.answers) or record.get("is_impossible") is True
        return question

    def _read_answers(
        self, record: Mapping[str, Any], context: str, location: str
    ) -> Iterator[GoldAnswer]:
        for index, answer in enumerate(self._answer_records(record, location)):
            answer_location = f"{location}.answers[{index}]"
            text = self._get(answer, "text", str, answer_location)
            reads_start = self.needs_offsets or "answer_start" in answer
            start = self._get_start(answer, answer_location) if reads_start else None
            if not text.strip():  # in some data sets this means that there is no answer
                continue
            if start is None:
                yield GoldAnswer(text, None)
                continue
            located = locate_answer(context, text, start)
            self.num_lost += located.start is None
            self.num_moved += located.is_moved
            yield located

    def _answer_records(self, record: Mapping[str, Any], location: str) -> Iterable[Any]:
        """Return the answers as objects, also where they are two lists, as in `datasets`."""
        answers = record.get("answers")
        if isinstance(answers, dict) and not self.needs_offsets and "answer_start" not in answers:
            return ({"text": text} for text in self._get(answers, "text", list, location))
        if isinstance(answers, dict):
            texts = self._get(answers, "text", list, location)
            starts = self._get(answers, "answer_start", list, location)
            if len(texts) == len(starts):
                pairs = zip(texts, starts, strict=True)
                return ({"text": text, "answer_start": start} for text, start in pairs)
            raise InputError(
                f"{self._locate(location)}: 'text' and 'answer_start' of 'answers' differ in "
                f"length ({len(texts)} and {len(starts)}). Fix the question."
            )
        return self._get(record, "answers", list, location)

    def _get_id(self, record: Any, location: str) -> str:
        """Return the id; a whole number becomes its digits, as in prediction files."""
        is_number = isinstance(record, dict) and type(record.get("id")) is int
        return str(record["id"] if is_number else self._get(record, "id", str, location))

    def _get_start(self, answer: Any, location: str) -> int:
        """Return the offset; pandas writes 7.0 if the column has missing values."""
        start = answer.get("answer_start")
        if isinstance(start, float) and start.is_integer():
            return int(start)
        if isinstance(start, float):
            raise InputError(
                f"{self._locate(location)}: 'answer_start' is {start}; a whole number is expected. "
                "Fix it."
            )
        return int(self._get(answer, "answer_start", int, location))

    def _get(self, record: Any, key: str, kind: type, location: str) -> Any:
        return get_value(record, key, kind, self._locate(location))


def locate_answer(context: str, text: str, start: int) -> GoldAnswer:
    """Locate an answer in `context`, at its offset `start` or else as near to it as possible.

    If the context does not hold the text as it is, the text is searched without white space at its
    ends; if that is not found either, with any white space between its words.

    >>> locate_answer("in New  York.", " New York ", 2)
    GoldAnswer(text=' New York ', start=3, is_moved=True, size=9)
    """
    if start >= 0 and context.startswith(text, start):
        return GoldAnswer(text, start)
    if span := nearest(context, re.escape(text), start):
        return GoldAnswer(text, span[0], is_moved=True)
    bare = text.strip()
    start += len(text) - len(text.lstrip())
    words = r"\s+".join(map(re.escape, bare.split()))
    if span := nearest(context, re.escape(bare), start) or nearest(context, words, start):
        return GoldAnswer(text, span[0], is_moved=True, size=span[1] - span[0])
    return GoldAnswer(text, None)


def nearest(context: str, pattern: str, start: int) -> tuple[int, int] | None:
    """Return start and end of the match that begins nearest to `start`; None without a match.

    Matches may overlap. Of two that are equally near, the earlier one counts.
    """
    spans = (match.span(1) for match in re.finditer(f"(?=({pattern}))", context))
    return min(spans, key=lambda span: abs(span[0] - start), default=None)


def question_format(source: ExampleSource) -> QuestionFormat:
    """Return the format of a file by its name, and of a .json file by its content.

    Rows in memory and standard input are read like `jsonl`.

    Raises:
        InputError: there is no such file, or its name has another ending.
    """
    if not isinstance(source, Path) or source == STANDARD_INPUT:
        return "jsonl"
    check_is_file(source)
    match ending_of(source):
        case "json":
            return "json" if holds_list(source) else "squad"
        case "jsonl" | "parquet" as ending:
            return ending
    check_not_packed(source)
    raise InputError(
        f"{source}: {ending_in_words(source)}; allowed are .json in SQuAD's "
        "format, and .jsonl, .parquet or a list in .json with one question a row, plain or "
        "compressed as .gz, .xz or .zst. Rename or convert it."
    )
