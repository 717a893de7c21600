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
    ("gz", gzip.compress(FIRST) + gzip.compress(LATER)),
    ("zst", SKIPPED + zst(FIRST) + SKIPPED + zst(LATER) + SKIPPED),
]


def read(path, compression, data):
    path.write_bytes(data)
    with open_path(path, compression, on_read=lambda count: None) as stream:
        return stream.read()


@pytest.mark.parametrize("compression, data", WHOLE, ids=["xz", "padded xz", "gz", "zst"])
def test_all_streams_are_read_or_the_file_is_refused(tmp_path, compression, data):
    assert read(tmp_path / "a", compression, data) == FIRST + LATER
    with pytest.raises(InputError, match="ends too early"):
        read(tmp_path / "a", compression, data[:-9])
    with pytest.raises(InputError, match="Copy or download the file again"):
        read(tmp_path / "a", compression, data + b"x")


def test_a_zst_window_that_is_too_wide_is_no_damage(tmp_path):
    settings = zstandard.ZstdCompressionParameters(window_log=28)
    writer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    data = writer.compress(b"text ") + writer.flush()
    with pytest.raises(InputError, match=r"x\.zst: needs more than 128 MiB .*zstd -d --long=31"):
        read(tmp_path / "x.zst", "zst", data)
