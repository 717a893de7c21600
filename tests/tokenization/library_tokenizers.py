"""What a tokenizer of ours must equal: the `tokenizers` library, reading what ours has saved."""

import random
import struct
import tempfile
from pathlib import Path

import tokenizers
from tiny_tokenizers import TEXT
from unicode_strings import unicode_string

TRICKY = [
    "", " ", "   ", "a  b   c ", "\n\n a\t\tb\r\n", "I'm they'll we've 'S 's 'tis 'd",
    "x1y22z ½ ² Ⅷ १२", "a <mask> b  <mask><mask>", "<mask>", "<s> </s><pad>",
    "👩‍👩‍👧 🇩🇪 ✌🏽 e\u0301", "שלום عالم ١٢", "漢字かな交じり文。", "\x00\x1f\x85\u200b\u180e\u2028",
    "ĠaĊb", "a" * 300, "``x'' '''' ```", "▁a▁▁b", "1,000, 9, 10,", "a [MASK] b  [MASK]",
    "the <unk> sea", "日 本", "K\x00bu yi\x00as", "\x0b\x85\x1f", "a" * 100, "a" * 101, "é" * 101,
    "漢" * 500, "a\u0301" * 300, "\u302e\u0301" * 300, "[MASK][MASK] x[SEP]y [CLS",
    "\u0130\u2260\u1fef\u037e", "a\x1cb\x0bc\x85d e\u2028f", "\u0344\u0316\u1d15e\u302e",
    "Don't! (you?) say: 'so'.", TEXT,
]  # fmt: skip


def texts_to_try(count, seed=31):
    rng = random.Random(seed)
    return [*TRICKY, *(unicode_string(rng) for _ in range(count))]


def library_of(tokenizer):
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(Path(folder))
        return tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")


def assert_same(ours, library, *texts, max_length=None):
    library.no_truncation()
    if max_length is not None:
        library.enable_truncation(max_length, strategy="longest_first")
    found, theirs = ours.encode(*texts, max_length=max_length), library.encode(*texts)
    for name in ("ids", "tokens", "offsets", "type_ids", "special_tokens_mask", "sequence_ids"):
        assert getattr(found, name) == getattr(theirs, name), (name, ascii(texts))
    assert_same_text(ours, library, found.ids)
    if max_length is None:
        ids = [id_ for text in texts for id_ in ours.encode_ids(text)]
        of_texts = zip(theirs.ids, theirs.sequence_ids, strict=True)
        assert ids == [id_ for id_, number in of_texts if number is not None], ascii(texts)


def assert_same_text(ours, library, ids):
    for skip in (True, False):
        text = library.decode(ids, skip_special_tokens=skip)
        assert ours.decode(ids, skip_special_tokens=skip) == text, ids


def assert_same_batch(ours, library, lines):
    library.no_truncation()
    ids, lengths = ours.encode_batch_ids(lines)
    theirs = library.encode_batch(lines, add_special_tokens=False)
    assert lengths.tolist() == [len(row.ids) for row in theirs]
    assert ids.tolist() == [id_ for row in theirs for id_ in row.ids]


def sentencepiece_file(pieces, model_type=1):
    """The protocol buffer of a model, as sentencepiece writes it."""

    def field(number, value):
        assert len(value) < 128
        return bytes([number << 3 | 2, len(value)]) + value

    entries = (
        field(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, type_])
        for piece, score, type_ in pieces
    )
    return (
        b"".join(field(1, entry) for entry in entries)
        + field(2, bytes([3 << 3, model_type]))
        + field(3, field(1, b"nmt_nfkc"))
    )


SENTENCEPIECES = [
    ("<pad>", 0.0, 3), ("<unk>", 0.0, 2), ("[CLS]", 0.0, 3), ("[SEP]", 0.0, 3), ("[MASK]", 0.0, 4),
    ("▁a", -1.5, 1), ("9,", -1.0, 1), ("9", -2.0, 1), (",", -2.5, 1), ("▁", -3.0, 1),
]  # fmt: skip
