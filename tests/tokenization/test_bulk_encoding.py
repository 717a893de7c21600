"""Bulk encoding gives what the rules give for each text, whatever is remembered or forgotten."""

import random
from threading import Thread

import numpy as np
import pytest

from bertsmith.tokenization import bulk_encoding, chunk_table
from bertsmith.tokenization.bulk_encoding import BulkEncoder

CHARACTERS = (*"aabbZ09 \t.,-'\x01\x85é漢", "long" * 5)


def letters(chunk):
    """Ids as a rule for the tests: the code of each byte that is no control, in lower case."""
    return [code for code in chunk.lower() if code >= 32]


def check(encoder, texts):
    ids, lengths = encoder.encode(text.encode() for text in texts)
    assert ids.dtype == np.int32
    found = [part.tolist() for part in np.split(ids, lengths.cumsum())[:-1]]
    assert found == [[code for code in letters(text.encode()) if code != 32] for text in texts]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize(("block_bytes", "max_kept", "row_bits"), [(1, 50, 2), (333, 9, 18)])
def test_nothing_depends_on_blocks_or_memory(
    monkeypatch, lowercase, block_bytes, max_kept, row_bits
):
    monkeypatch.setattr(bulk_encoding, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(bulk_encoding, "MAX_KEPT", max_kept)
    monkeypatch.setattr(chunk_table, "ROW_BITS", row_bits)
    monkeypatch.setattr(chunk_table, "MAX_KEYS", 1 << (row_bits - 1))
    rng, encoder = random.Random(31), BulkEncoder(letters, lowercase=lowercase)
    texts = ["".join(rng.choices(CHARACTERS, k=rng.randrange(30))) for _ in range(500)]
    check(encoder, texts)
    check(encoder, texts[::-1])


def test_texts_may_come_from_a_generator_that_encodes_with_the_same_encoder():
    encoder = BulkEncoder(letters, lowercase=True)

    def texts():
        for text in (b"a b", b"long"):
            assert encoder.encode([text])[1].tolist() == [len(text.replace(b" ", b""))]
            yield text

    counted = []
    thread = Thread(target=lambda: counted.append(encoder.encode(texts())[1].tolist()), daemon=True)
    thread.start()
    thread.join(60)  # it would wait for itself forever
    assert counted == [[2, 4]]
