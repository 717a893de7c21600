"""Compressed files of several streams: read whole, or refused."""

import gzip
import lzma

import pytest
import zstandard

from bertsmith.data.sources import open_path
from bertsmith.errors import InputError

FIRST = b"text,label\ngood film,1\nbad film,0\n"
LATER = b"a fine one,1\nno good,0\n"
SKIPPED = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"aside"


def zst(plain):
    return zstandard.ZstdCompressor(write_checksum=True).compress(plain)


WHOLE = [
    ("xz", lzma.compress(FIRST) + lzma.compress(LATER)),
    ("xz", lzma.compress(FIRST) + bytes(8) + lzma.compress(LATER) + bytes(4)),
    ("xz", lzma.compress(FIRST) + lzma.compress(b"") + lzma.compress(LATER)),
    ("gz", gzip.compress(FIRST) + gzip.compress(LATER)),
    ("zst", SKIPPED + zst(FIRST) + SKIPPED + zst(LATER) + SKIPPED),
]

each_whole = pytest.mark.parametrize(
    "compression, data", WHOLE, ids=["xz", "padded xz", "an empty stream in xz", "gz", "zst"]
)


def read(path, compression, data):
    path.write_bytes(data)
    with open_path(path, compression, on_read=lambda count: None) as stream:
        return stream.read()


@each_whole
def test_all_streams_are_read_and_none_that_is_cut_short(tmp_path, compression, data):
    assert read(tmp_path / "a", compression, data) == FIRST + LATER
    with pytest.raises(InputError, match="ends too early"):
        read(tmp_path / "a", compression, data[:-9])


@each_whole
def test_no_flipped_bit_changes_what_is_read(tmp_path, compression, data):
    """Some bits say nothing of the content, such as those of the time in a .gz: they may flip."""
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        try:
            found = read(tmp_path / "a", compression, bytes(flipped))
        except InputError:
            continue
        assert compression != "xz", f"byte {place}"
        assert found == FIRST + LATER, f"byte {place}"


@each_whole
@pytest.mark.parametrize("garbage", [b"x", b"\xfd7zXZ", b"\x1f\x8b", b"\x28"], ids=repr)
def test_garbage_behind_the_streams(tmp_path, compression, data, garbage):
    with pytest.raises(InputError, match="Copy or download the file again"):
        read(tmp_path / "a", compression, data + garbage)


def test_a_zst_window_that_is_too_wide_is_no_damage(tmp_path):
    settings = zstandard.ZstdCompressionParameters(window_log=28)
    writer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    data = writer.compress(b"text ") + writer.flush()
    with pytest.raises(InputError, match=r"x\.zst: needs more than 128 MiB .*zstd -d --long=31"):
        read(tmp_path / "x.zst", "zst", data)
