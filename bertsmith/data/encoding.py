"""Encode documents to token ids, in any process, for a corpus.

Worker processes get parts of the texts and return arrays. A part is a partition (a range of a
file's bytes, which the worker reads), or a batch of texts from files that only one process can
read. The division into parts does not change the ids. The ids hold no special tokens except that
of unknown words: a text that says "[MASK]" means the word.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bertsmith.data.documents import Document, DocumentReader
from bertsmith.data.html_tags import count_html_tags
from bertsmith.data.partitions import Partition, plan_partitions
from bertsmith.data.reading import SourceReport
from bertsmith.data.sentences import split_sentences
from bertsmith.data.shards import id_dtype
from bertsmith.data.sources import Source
from bertsmith.data.splits import text_hash
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.tokenizer import Tokenizer

PARTITION_BYTES = 1 << 19
"""Size of a partition, or of a batch of texts in characters."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Texts of documents that only one process can read.

    `first` says which document the first one is, for errors.
    """

    first: str
    texts: list[str]

    def __str__(self) -> str:
        return f"{len(self.texts)} texts from {self.first} on"


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The encoded documents of a part, one after another, and the counts of reading them.

    Shapes: `ids` `[tokens]`; `sentence_lengths` in tokens, `[sentences]`, none of them 0;
    `document_lengths` in sentences, `characters` (their number) and `text_hashes` (uint64), all
    `[documents]`. The hashes choose the split of each document, and find duplicates.
    """

    ids: np.ndarray
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    characters: np.ndarray
    text_hashes: np.ndarray
    report: SourceReport

    def documents(self) -> "EncodedDocuments":
        """Return the range of all documents of the part."""
        sentence_starts = np.concatenate([[0], np.cumsum(self.document_lengths)])
        token_starts = np.concatenate([[0], np.cumsum(self.sentence_lengths)])[sentence_starts]
        return EncodedDocuments(self, sentence_starts, token_starts, 0, len(self.document_lengths))


@dataclass(frozen=True, slots=True)
class EncodedDocuments:
    """Range of the documents of a part, without a copy of its arrays."""

    part: EncodedPart
    sentence_starts: np.ndarray
    """Index of each document's first sentence in the part, and the end of the last, `[documents +
    1]`."""
    token_starts: np.ndarray
    """Index of each document's first token in the part, and the end of the last, `[documents + 1]`.
    """
    start: int
    end: int
    """The range holds the documents `start` to `end`, exclusive, of the part."""

    def __len__(self) -> int:
        return self.end - self.start

    def slice(self, start: int, end: int) -> "EncodedDocuments":
        """Take the documents `start` to `end`, counted from the first document of this range."""
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
    """Encoder of documents to ids that hold no special tokens except that of unknown words."""

    def __init__(self, tokenizer: Tokenizer, reader: DocumentReader) -> None:
        self._tokenizer = tokenizer
        self._reader = reader
        self.id_dtype = id_dtype(tokenizer.vocab_size)
        tokens = map(tokenizer.id_to_token, sorted(tokenizer.special_ids))
        # A space behind the first character keeps the tokenizer from reading a special token in
        # a text. In BERT's vocabularies nothing else changes: punctuation is a token of its own
        # with or without a space.
        self._literals = [(token, f"{token[0]} {token[1:]}") for token in tokens]
        self._is_special = np.zeros(tokenizer.vocab_size, dtype=bool)
        self._is_special[[*tokenizer.special_ids]] = True
        self._is_special[tokenizer.unk_id] = False  # it also stands for unknown words

    def encode_part(self, part: Partition | TextBatch) -> EncodedPart:
        """Encode a part; the texts of a partition are read first."""
        report = SourceReport()
        if isinstance(part, Partition):
            texts = [document.text for document in self._reader.read(part, report)]
        else:  # the process that read these texts has counted them
            texts = part.texts
        try:
            return self.encode(texts, report)
        except Exception as error:
            error.add_note(f"While encoding {part}")
            raise

    def encode(self, texts: Iterable[str], report: SourceReport) -> EncodedPart:
        """Encode texts; a text without tokens has no sentences.

        `report` has the counts of reading the texts. It gets the number of HTML tags as well, and
        goes with the result.
        """
        sentences: list[str] = []
        document_ends: list[int] = []
        characters: list[int] = []
        hashes: list[int] = []
        # A space for byte-level BPE, whose ids differ after a space; else empty.
        prefix = self._tokenizer.continuation_prefix
        for text in texts:
            text_sentences = split_sentences(self._without_special_tokens(text))
            sentences += text_sentences[:1]
            sentences += [prefix + sentence for sentence in text_sentences[1:]]
            document_ends.append(len(sentences))
            characters.append(len(text))
            hashes.append(text_hash(text))
            report.html_tags += count_html_tags(text)
        ids, sentence_lengths = self._encode_sentences(sentences)
        # Number of sentences with tokens before each sentence; sentences without tokens are left
        # out.
        kept_before = np.concatenate([[0], np.cumsum(sentence_lengths > 0)])
        return EncodedPart(
            ids=ids.astype(self.id_dtype),
            sentence_lengths=sentence_lengths[sentence_lengths > 0].astype(np.int32),
            document_lengths=np.diff(kept_before[document_ends], prepend=0),
            characters=np.array(characters, np.int64),
            text_hashes=np.array(hashes, np.uint64),
            report=report,
        )

    def _encode_sentences(self, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode sentences; return ids, `[tokens]`, and counts of ids, `[sentences]`.

        Some tokenizers find special tokens in normalized text: an uncased one then reads "[mask]"
        as [MASK]. Such text means the word, too.
        """
        ids, lengths = self._tokenizer.encode_batch_ids(sentences)
        is_special = self._is_special[ids]
        if not is_special.any():
            return ids, lengths
        sentence_of_token = np.repeat(np.arange(len(lengths)), lengths)
        for row in np.unique(sentence_of_token[is_special]):
            sentences[row] = self._split_special_tokens(sentences[row])
        return self._tokenizer.encode_batch_ids(sentences)

    def _split_special_tokens(self, sentence: str) -> str:
        """Put a space into each place of a sentence that is read as a special token."""
        encoding = self._tokenizer.encode(sentence)
        # From the last token to the first, so that the offsets of the tokens before stay valid.
        for id_, (start, end) in reversed([*zip(encoding.ids, encoding.offsets, strict=True)]):
            if self._is_special[id_] and start < end:  # not a [CLS] or [SEP] around the sentence
                token = sentence[start:end].lstrip()  # some tokens take the space before them
                split_at = end - len(token) + 1
                sentence = f"{sentence[:split_at]} {sentence[split_at:]}"
        return sentence

    def _without_special_tokens(self, text: str) -> str:
        for token, literal in self._literals:
            if token in text:
                text = text.replace(token, literal)
        return text


def iter_parts(
    sources: Iterable[Source], reader: DocumentReader, report: SourceReport
) -> Iterator[Partition | TextBatch]:
    """Yield the parts to encode, in order: partitions, and batches of texts that are read here.

    `report` gets the counts of the texts that are read here.
    """
    planned = plan_partitions(sources, PARTITION_BYTES)
    # A partition without an end is read as a stream, such as a compressed file: by this process.
    for is_partition, parts in itertools.groupby(planned, lambda part: part.end is not None):
        if is_partition:
            yield from parts
        else:
            yield from iter_batches(text for part in parts for text in reader.read(part, report))


def iter_batches(documents: Iterable[Document]) -> Iterator[TextBatch]:
    """Yield documents that are read here as batches to encode, in order."""
    for group in group_by_size(documents, PARTITION_BYTES):
        yield TextBatch(str(group[0]), [document.text for document in group])
