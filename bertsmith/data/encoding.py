"""Encode documents to clean token ids, in any process.

What is sent is a partition of a file, or documents of files that only one process can read; arrays
come back. How the text is divided for that changes nothing of the result.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bertsmith.data.documents import DocumentReader
from bertsmith.data.partitions import Partition, plan_partitions
from bertsmith.data.reading import SourceReport
from bertsmith.data.sentences import split_sentences
from bertsmith.data.shards import id_dtype
from bertsmith.data.sources import Source
from bertsmith.data.splits import text_hash
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.tokenizer import Tokenizer

PARTITION_BYTES = 1 << 19
"""Of text, or characters, that are sent at once."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Texts of documents that only one process can read, and the place of the first."""

    first: str
    texts: list[str]

    def __str__(self) -> str:
        return f"{len(self.texts)} texts from {self.first} on"


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """Clean ids of a document. `sentence_lengths` in tokens, `[sentences]`, none of them 0."""

    ids: np.ndarray
    sentence_lengths: np.ndarray
    characters: int
    text_hash: int


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Documents of a partition, one after another, and what was read for them.

    Shapes: `ids` `[tokens]`; `sentence_lengths` in tokens, `[sentences]`, none of them 0;
    `document_lengths` in sentences, `characters` and `text_hashes`, all `[documents]`.
    """

    ids: np.ndarray
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    characters: list[int]
    text_hashes: list[int]
    report: SourceReport

    def documents(self) -> Iterator[EncodedDocument]:
        """Yield views of the documents, in order."""
        ends = np.cumsum(self.document_lengths)
        token_ends = np.concatenate([[0], np.cumsum(self.sentence_lengths)])[ends].tolist()
        sentence = token = 0
        for end, token_end, characters, hashed in zip(
            ends.tolist(), token_ends, self.characters, self.text_hashes, strict=True
        ):
            lengths = self.sentence_lengths[sentence:end]
            yield EncodedDocument(self.ids[token:token_end], lengths, characters, hashed)
            sentence, token = end, token_end


class Encoder:
    """Encoder of documents to clean ids."""

    def __init__(self, tokenizer: Tokenizer, reader: DocumentReader | None = None) -> None:
        self._tokenizer = tokenizer
        self._reader = reader or DocumentReader()
        self._dtype = id_dtype(tokenizer.vocab_size)
        tokens = map(tokenizer.id_to_token, sorted(tokenizer.special_ids))
        # A text that says "[MASK]" means the word, so it is written such that no id of a
        # special token comes of it. In BERT's vocabularies nothing else changes: punctuation is a
        # token of its own with or without a space.
        self._literals = [(token, f"{token[0]} {token[1:]}") for token in tokens]

    def encode_part(self, part: Partition | TextBatch) -> EncodedPart:
        """Encode texts, which are read here where a partition is given."""
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

    def encode(self, texts: Iterable[str], report: SourceReport | None = None) -> EncodedPart:
        """Encode texts; those that leave no token have no sentences."""
        sentences: list[str] = []
        document_ends: list[int] = []
        characters: list[int] = []
        hashes: list[int] = []
        joint = self._tokenizer.joint
        for text in texts:
            found = split_sentences(self._without_special_tokens(text))
            sentences += found[:1]
            sentences += [joint + sentence for sentence in found[1:]] if joint else found[1:]
            document_ends.append(len(sentences))
            characters.append(len(text))
            hashes.append(text_hash(text))
        ids, sentence_lengths = self._tokenizer.encode_batch_ids(sentences)
        kept_before = np.concatenate([[0], np.cumsum(sentence_lengths > 0)])
        return EncodedPart(
            ids=ids.astype(self._dtype),
            sentence_lengths=sentence_lengths[sentence_lengths > 0].astype(np.int32),
            document_lengths=np.diff(kept_before[document_ends], prepend=0),
            characters=characters,
            text_hashes=hashes,
            report=report or SourceReport(),
        )

    def _without_special_tokens(self, text: str) -> str:
        for token, literal in self._literals:
            if token in text:
                text = text.replace(token, literal)
        return text


def iter_parts(
    sources: Iterable[Source], reader: DocumentReader, report: SourceReport
) -> Iterator[Partition | TextBatch]:
    """Yield what to encode, in order: partitions, and texts that have to be read here."""
    here: list[Partition] = []

    def read() -> Iterator[TextBatch]:
        documents = (document for part in here for document in reader.read(part, report))
        for group in group_by_size(documents, PARTITION_BYTES):
            yield TextBatch(str(group[0]), [document.text for document in group])
        here.clear()

    for partition in plan_partitions(sources, PARTITION_BYTES):
        if partition.end is None:
            here.append(partition)
        else:
            yield from read()
            yield partition
    yield from read()
