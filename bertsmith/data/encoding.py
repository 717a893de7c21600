"""Encode documents to blocks of token ids on all cores, in order.

Batches of text travel to the workers and arrays come back. Batches are cut by the text alone, so
the blocks are the same whatever the number of processes.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bertsmith.data.manifest import Split
from bertsmith.data.sentences import split_sentences
from bertsmith.data.shards import Block, id_dtype
from bertsmith.system.processes import map_in_order
from bertsmith.tokenization.tokenizer import Tokenizer

BATCH_CHARS = 1 << 19


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Documents of one split that are encoded in one go."""

    split: Split
    texts: list[str]


class Encoder:
    """Encoder of documents to blocks of clean ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._dtype = id_dtype(tokenizer.vocab_size)
        tokens = map(tokenizer.id_to_token, sorted(tokenizer.special_ids))
        # A text that says "[MASK]" means the word, so it is written such that no id of a
        # special token comes of it. In BERT's vocabularies nothing else changes: punctuation is a
        # token of its own with or without a space.
        self._literals = [(token, f"{token[0]} {token[1:]}") for token in tokens]

    def encode(self, texts: Iterable[str]) -> Block:
        """Encode documents; those that leave no token are only counted."""
        sentences: list[str] = []
        document_ends: list[int] = []
        characters: list[int] = []
        joint = self._tokenizer.joint
        for text in texts:
            found = split_sentences(self._without_special_tokens(text))
            sentences += found[:1]
            sentences += [joint + sentence for sentence in found[1:]] if joint else found[1:]
            document_ends.append(len(sentences))
            characters.append(len(text))
        ids, sentence_lengths = self._tokenizer.encode_batch_ids(sentences)
        kept_before = np.concatenate([[0], np.cumsum(sentence_lengths > 0)])
        document_lengths = np.diff(kept_before[document_ends], prepend=0)
        return Block(
            ids=ids.astype(self._dtype),
            sentence_lengths=sentence_lengths[sentence_lengths > 0].astype(np.int32),
            document_lengths=document_lengths[document_lengths > 0].astype(np.int32),
            unknown_tokens=int(np.count_nonzero(ids == self._tokenizer.unk_id)),
            characters=int(np.dot(characters, document_lengths > 0)),
            documents_without_tokens=int(np.count_nonzero(document_lengths == 0)),
        )

    def encode_batch(self, batch: TextBatch) -> tuple[Split, Block]:
        return batch.split, self.encode(batch.texts)

    def _without_special_tokens(self, text: str) -> str:
        for token, literal in self._literals:
            if token in text:
                text = text.replace(token, literal)
        return text


def make_batches(
    placed: Iterable[tuple[str, Split]], batch_chars: int = BATCH_CHARS
) -> Iterator[TextBatch]:
    """Gather documents of the same split until they are worth sending."""
    texts: dict[Split, list[str]] = {}
    sizes: dict[Split, int] = {}
    for text, split in placed:
        texts.setdefault(split, []).append(text)
        sizes[split] = sizes.get(split, 0) + len(text)
        if sizes[split] >= batch_chars:
            yield TextBatch(split, texts.pop(split))
            del sizes[split]
    for split in sorted(texts):
        yield TextBatch(split, texts[split])


def encode_batches(
    batches: Iterable[TextBatch], tokenizer: Tokenizer, processes: int
) -> Generator[tuple[Split, Block], None, None]:
    """Encode batches in order, in this process or in `processes` others.

    Raises:
        ConfigError: a worker process was ended from outside.
    """
    return map_in_order(Encoder(tokenizer).encode_batch, batches, processes)
