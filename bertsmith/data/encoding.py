"""Encode documents to clean token ids, in any process.

Workers get a partition of a file, or documents of files that only one process can read, and return
arrays. The division does not change the result.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bertsmith.data.documents import Document, DocumentReader
from bertsmith.data.partitions import Partition, plan_partitions
from bertsmith.data.reading import SourceReport
from bertsmith.data.shards import id_dtype
from bertsmith.data.sources import Source
from bertsmith.data.splits import text_hash
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.tokenizer import Tokenizer

_LINE_END = r"\n\r\v\f\x85\u2028\u2029"
_STOP = ".!?。！？；…｡"
_CLOSING = r"\"'”’»」』）》】〉〕)\]}"
_OPENING = r"\"'“‘«「『（《【〈〔(\[{"
_SPACE = rf"[^\S{_LINE_END}]"
_LOWER = "a-zß-öø-ÿа-яё"
_CHINESE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_TAG = r"br\s*+/?>"  # <br />, the line break that web text is full of

# Words before a full stop that does not end a sentence: those of `_NEVER` wherever they stand, of
# `_NOT_BEFORE_NUMBER` if a number follows, of `_SELDOM` unless the next word often opens a
# sentence.
_NEVER = re.compile(
    "mr|mrs|ms|mx|dr|prof|rev|hon|gen|col|maj|capt|cmdr|lt|sgt|cpl|pvt|adm|gov|sen|rep|pres|supt|"
    "fr|mme|mlle|mt|vs|v|cf|e\\.g|eg|i\\.e|ie|viz|al|ca|c|resp|incl|esp"
)
_NOT_BEFORE_NUMBER = re.compile(
    "nos?|vols?|pp?|pg|figs?|chap|ch|sect?|art|eqs?|tab|ver|op|approx|"
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_SELDOM = re.compile(
    "inc|ltd|co|corp|llc|bros|jr|sr|esq|dept|univ|assn|ave|blvd|rd|st|bldg|etc|est|eds?|trans|"
    "b|d|r|fl|oz|lb|ft"
)
_INITIALS = re.compile(r"[^\W\d_a-z]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_OPENING_WORD = re.compile(
    rf"[{_OPENING}]*(?:A|According|After|All|Also|Although|An|And|As|At|Because|Before|Both|But|By|"
    "Despite|During|Each|For|From|He|Her|His|How|However|I|If|In|It|Its|Later|Many|Most|My|No|On|"
    "One|Our|She|Since|So|Some|That|The|Their|Then|There|These|They|This|Those|To|Under|Until|We|"
    r"What|When|Where|While|Who|Why|With|You)\b(?![.-])"
)

# The search scans for one set of characters; look-behinds then tell which of them was found. A run
# of stops is tried from its first one only, and repeats are possessive, so the time is linear in
# the text, whatever it holds.
_END = re.compile(
    rf"""
    [{_LINE_END}{_STOP}<]
    (?:
        # a line end
        (?<=[{_LINE_END}])
        # one or more tags of line breaks
      | (?<=<) (?i:{_TAG}) (?i:\s*+<{_TAG})*+
        # one or more stops
      | (?<![{_STOP}].) [{_STOP}]*+
        (?:
            # Chinese ones, unless a comma follows
            (?<=[。！？；｡]) [{_CLOSING}]*+ (?![，、：,])
            # ! ? … before Chinese text
          | (?<=[!?…]) [{_CLOSING}]*+ (?![，、：；。]) (?=[{_CHINESE}“‘])
            # any, with quotes and footnotes [1], before white space, then no lower case
          | (?:[{_CLOSING}]|\[\d{{1,3}}\])*+
            {_SPACE}++ (?![{_OPENING}]{{0,3}}[{_LOWER}]) (?![,;:.)])
        )
    )
    """,
    re.VERBOSE,
)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, without white space at their ends.

    A line end is always the end of a sentence. A full stop does not end one before a lower-case
    word, after the number of a list item, or after an abbreviation such as `Dr.`; after other
    abbreviations (`Inc.`) and initials only if the next word is one that often opens a sentence.

    >>> split_sentences('Dr. Wu paid 3.50 in the U.S. She left. "Why?" he asked.')
    ['Dr. Wu paid 3.50 in the U.S.', 'She left.', '"Why?" he asked.']
    >>> split_sentences("他说：“你好！”然后走了。为什么？")
    ['他说：“你好！”', '然后走了。', '为什么？']
    """
    sentences = []
    start = 0
    for match in _END.finditer(text):
        stop, end = match.span()
        if text[stop] == "." and not _ends_sentence(text, start, stop, end):
            continue
        if sentence := text[start:end].strip():
            sentences.append(sentence)
        start = end
    if sentence := text[start:].strip():
        sentences.append(sentence)
    return sentences


def _ends_sentence(text: str, start: int, dot: int, end: int) -> bool:
    """Return whether the full stop at `dot` ends the sentence from `start` on.

    The next word is at `end`.
    """
    before = text[dot - 5 : dot]
    number_follows = text[end : end + 1].isdigit()
    if before.isalpha() and before.islower() and before != "trans" and not number_follows:
        return True  # most full stops: no other word of `_NEVER` or `_SELDOM` has five letters
    if text[dot + 1] in _STOP:
        return True
    word = text[max(start, dot - 20) : dot].rpartition(" ")[2].lstrip(_OPENING)
    if word.isdigit() and len(word) <= 3 and dot - len(word) == start:
        return False  # the number of a heading or list item
    lower = word if len(word) == 1 else word.lower()
    if _NEVER.fullmatch(lower) or (number_follows and _NOT_BEFORE_NUMBER.fullmatch(lower)):
        return False
    if _SELDOM.fullmatch(lower) or _INITIALS.fullmatch(word):
        return _OPENING_WORD.match(text, end) is not None
    return True


_HTML_TAG = re.compile(
    r"</?(?:a|b|br|div|em|h[1-6]|hr|i|img|li|ol|p|script|span|strong|style|table|td|th|tr|ul)"
    r"(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)


def count_html_tags(text: str) -> int:
    """Count the HTML tags that are left in a text.

    >>> count_html_tags("A film.<br /><br>See <a href='x'>here</a>; 1 < 2 > 0, a<b>c.")
    5
    """
    return len(_HTML_TAG.findall(text)) if "<" in text else 0


PARTITION_BYTES = 1 << 19
"""Size of a partition, or of a batch of texts in characters."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Texts of documents that only one process can read; `first` names the first of them."""

    first: str
    texts: list[str]

    def __str__(self) -> str:
        return f"{len(self.texts)} texts from {self.first} on"


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The encoded documents of a partition, one after another, and the counts of reading them.

    Shapes: `ids` `[tokens]`; `sentence_lengths` in tokens, `[sentences]`, none of them 0;
    `document_lengths` in sentences, `characters` and `text_hashes` (uint64), all `[documents]`.
    """

    ids: np.ndarray
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    characters: np.ndarray
    text_hashes: np.ndarray
    report: SourceReport

    def documents(self) -> "EncodedDocuments":
        sentence_starts = np.concatenate([[0], np.cumsum(self.document_lengths)])
        token_starts = np.concatenate([[0], np.cumsum(self.sentence_lengths)])[sentence_starts]
        return EncodedDocuments(self, sentence_starts, token_starts, 0, len(self.document_lengths))


@dataclass(frozen=True, slots=True)
class EncodedDocuments:
    """Range of the documents of a part, without a copy of its arrays."""

    part: EncodedPart
    sentence_starts: np.ndarray
    """The start of each document of the part, and the end of the last, `[documents + 1]`."""
    token_starts: np.ndarray
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def slice(self, start: int, end: int) -> "EncodedDocuments":
        """Take the documents `start` to `end`, counted from the first of these."""
        return replace(self, start=self.start + start, end=self.start + end)

    @property
    def ids(self) -> np.ndarray:
        return self.part.ids[self.token_starts[self.start] : self.token_starts[self.end]]

    @property
    def sentence_lengths(self) -> np.ndarray:
        sentences = slice(self.sentence_starts[self.start], self.sentence_starts[self.end])
        return self.part.sentence_lengths[sentences]

    @property
    def document_lengths(self) -> np.ndarray:
        return self.part.document_lengths[self.start : self.end]

    @property
    def characters(self) -> np.ndarray:
        return self.part.characters[self.start : self.end]


class Encoder:
    """Encoder of documents to clean ids."""

    def __init__(self, tokenizer: Tokenizer, reader: DocumentReader) -> None:
        self._tokenizer = tokenizer
        self._reader = reader
        self.id_dtype = id_dtype(tokenizer.vocab_size)
        tokens = map(tokenizer.id_to_token, sorted(tokenizer.special_ids))
        # A text that says "[MASK]" means the word, so it is written such that no id of a
        # special token comes of it. In BERT's vocabularies nothing else changes: punctuation is a
        # token of its own with or without a space.
        self._literals = [(token, f"{token[0]} {token[1:]}") for token in tokens]

    def encode_part(self, part: Partition | TextBatch) -> EncodedPart:
        """Encode a part; the texts of a partition are read first."""
        report = SourceReport()
        if isinstance(part, Partition):
            texts = [document.text for document in self._reader.read(part, report)]
        else:
            texts = part.texts
        try:
            return self.encode(texts, report)
        except Exception as error:
            error.add_note(f"While encoding {part}")
            raise

    def encode(self, texts: Iterable[str], report: SourceReport) -> EncodedPart:
        """Encode texts; a text without tokens has no sentences."""
        sentences: list[str] = []
        document_ends: list[int] = []
        characters: list[int] = []
        hashes: list[int] = []
        prefix = self._tokenizer.continuation_prefix
        for text in texts:
            text_sentences = split_sentences(self._without_special_tokens(text))
            sentences += text_sentences[:1]
            sentences += [prefix + sentence for sentence in text_sentences[1:]]
            document_ends.append(len(sentences))
            characters.append(len(text))
            hashes.append(text_hash(text))
            report.html_tags += count_html_tags(text)
        ids, sentence_lengths = self._tokenizer.encode_batch_ids(sentences)
        kept_before = np.concatenate([[0], np.cumsum(sentence_lengths > 0)])
        return EncodedPart(
            ids=ids.astype(self.id_dtype),
            sentence_lengths=sentence_lengths[sentence_lengths > 0].astype(np.int32),
            document_lengths=np.diff(kept_before[document_ends], prepend=0),
            characters=np.array(characters, np.int64),
            text_hashes=np.array(hashes, np.uint64),
            report=report,
        )

    def _without_special_tokens(self, text: str) -> str:
        for token, literal in self._literals:
            if token in text:
                text = text.replace(token, literal)
        return text


def iter_parts(
    sources: Iterable[Source], reader: DocumentReader, report: SourceReport
) -> Iterator[Partition | TextBatch]:
    """Yield the parts to encode, in order: partitions, and batches of texts that are read here."""
    planned = plan_partitions(sources, PARTITION_BYTES)
    for is_partition, parts in itertools.groupby(planned, lambda part: part.end is not None):
        if is_partition:
            yield from parts
        else:
            yield from iter_batches(text for part in parts for text in reader.read(part, report))


def iter_batches(documents: Iterable[Document]) -> Iterator[TextBatch]:
    """Yield documents that are read here as batches to encode, in order."""
    for group in group_by_size(documents, PARTITION_BYTES):
        yield TextBatch(str(group[0]), [document.text for document in group])
