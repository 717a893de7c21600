"""Decode the bytes of a text file into lines of bounded length."""

import io
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import AnyStr

from bertsmith.data.reading import Reading
from bertsmith.data.sources import SourcePath
from bertsmith.errors import InputError

MAX_LINE_BYTES = 1 << 20
"""Largest size of a line of running text; a longer line is read in parts."""
MAX_ROW_BYTES = 1 << 25
"""Largest size of a row of the formats whose rows must be in memory as a whole."""

_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_ACCENTED_LETTER = re.compile(
    rb"(?<![\x80-\xff])(?:(?<=[A-Za-z])[\x80-\xff]|[\x80-\xff](?=[A-Za-z]))(?![\x80-\xff])"
)
"""A single byte beyond ASCII beside a letter, as of 'é' in 'café'."""
TEXT_STOPS = ("\n", "。", "！", "？", ". ", " ", "，")
"""Ends of lines, sentences and words behind which a long text is divided; earlier ones are better.
"""
_LINE_STOPS = tuple(stop.encode() for stop in TEXT_STOPS)
_CUT_WINDOW = 1 << 16  # characters or bytes before a limit in which a stop is looked for
_HEAD_BYTES = 1 << 13  # bytes that show the kind or the encoding of a file
_BLOCK_BYTES = 1 << 20
_UTF8_BOM = b"\xef\xbb\xbf"
_MAGIC = (
    (b"\x1f\x8b", "gzip data; rename it to end in .gz"),
    (b"BZh", "bzip2 data; unpack it with bunzip2 first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; take the text out of it first"),
    (b"Rar!", "a rar archive; take the text out of it first"),
    (b"\xfd7zXZ\x00", "xz data; rename it to end in .xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data; rename it to end in .zst"),
    (b"PAR1", "a Parquet table; rename it to end in .parquet"),
    (b"PK\x03\x04", "a zip archive or office document; take the text out of it first"),
    (b"%PDF-", "a PDF; take the text out of it first"),
    (b"\xff\xfe", "UTF-16 text; convert it (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "UTF-16 text; convert it (iconv -f UTF-16 -t UTF-8)"),
)
"""First bytes of files that are not UTF-8 text, with a name of their kind and advice."""


class Lines:
    """Decoded lines of a stream, line ends included.

    Args:
        reading: settings for reading the file, its counts, and where in it the stream begins.
        stream: the decompressed bytes, from `reading.start` on.
    """

    def __init__(self, reading: Reading, stream: io.BufferedReader) -> None:
        self.reading = reading
        self._stream = stream
        self._offset = reading.start
        self._num_lines = 0
        if not reading.start:  # a later part of a file does not show its kind
            self._check_start()

    @property
    def number(self) -> int:
        """Number, in the file, of the line that was read last; from 1."""
        return self._lines_before + self._num_lines

    @cached_property
    def _lines_before(self) -> int:
        start = self.reading.start
        # Without lines to count, the file must not be opened a second time: in fsspec's memory://
        # all readers of a file share one position.
        return count_lines(self.reading.source.path, start) if start else 0

    def _check_start(self) -> None:
        """Refuse a file that is not text by its first bytes, and skip a byte order mark."""
        start = self._stream.peek()
        head = start[:_HEAD_BYTES]
        check_is_text(str(self.reading.source.path), head)
        if b"\r" in start.rstrip(b"\r") and b"\n" not in start:
            raise InputError(
                f"{self.reading.source.path}:1: lines end in a carriage return (CR) alone. Convert "
                "them (tr '\\r' '\\n' < OLD > NEW)."
            )
        if head.startswith(_UTF8_BOM):
            self._advance(self._stream.read(len(_UTF8_BOM)))

    def whole(self) -> Iterator[str]:
        """Yield whole lines; reject those too long for a row."""
        while raw := self._stream.readline(MAX_ROW_BYTES):
            self._num_lines += 1
            if len(raw) == MAX_ROW_BYTES and not raw.endswith(b"\n"):
                self._refuse_long_row(raw)
            elif (text := self._decode(raw)) is not None:
                yield text

    def in_parts(self) -> Iterator[str]:
        """Yield lines of at most `MAX_LINE_BYTES`, longer ones in parts."""
        rest = b""  # bytes that were read, behind the end of the part that was yielded last
        continues_line = False  # whether they belong to the same line as that part
        while raw := rest + self._stream.readline(MAX_LINE_BYTES - len(rest)):
            if not continues_line:
                self._num_lines += 1
            is_cut = len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n")
            if is_cut and not continues_line:  # a long line counts once
                self.reading.report.cut["long_lines"] += 1
            end = find_cut(raw, _character_end(raw), _LINE_STOPS) if is_cut else len(raw)
            rest = raw[end:]
            raw = raw[:end]
            continues_line = is_cut
            if (text := self._decode(raw)) is not None:
                yield text

    def reject(self, reason: str, problem: str, advice: str) -> None:
        """Reject the line that was read last: raise InputError, or count it as skipped.

        `reason` and `advice` are those of `Reading.reject`, which may add words to the advice.
        """
        # Skipped lines are not numbered: to do so, all of the file before them would be read again.
        location = "" if self.reading.skips else f":{self.number}"
        self.reading.reject(reason, location, problem, advice)

    def _refuse_long_row(self, raw: bytes) -> None:
        """Reject a row whose first bytes are `raw`, and read on to its end."""
        self.reject(
            "long_rows",
            f"the line is longer than {MAX_ROW_BYTES:,} bytes, and each row must fit into memory",
            "Divide the document, give it as .txt",
        )
        while raw and not raw.endswith(b"\n"):
            self._advance(raw)
            raw = self._stream.readline(MAX_ROW_BYTES)
        self._advance(raw)

    def _decode(self, raw: bytes) -> str | None:
        """Decode a line or a part of one; None if it was rejected."""
        offset = self._offset
        self._advance(raw)
        if (nul := raw.find(b"\0")) >= 0:
            self._refuse("nul_bytes", offset + nul, "a NUL byte", "Remove it")
            return None
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            problem = f"invalid UTF-8 (0x{raw[error.start]:02x})"
            self._refuse("invalid_utf8", offset + error.start, problem, utf8_advice(error))
            return None

    def _refuse(self, reason: str, offset: int, problem: str, advice: str) -> None:
        """Reject the line that was read last for a byte at `offset` of the file."""
        after = " after decompression" if self.reading.source.compression else ""
        self.reject(reason, f"{problem} at byte {offset:,}{after}", advice)

    def _advance(self, raw: bytes) -> None:
        self._offset += len(raw)
        self.reading.report.bytes += len(raw)


def utf8_advice(error: UnicodeDecodeError) -> str:
    """Say how to make a text UTF-8, by the bytes behind the first wrong one.

    Letters with accents are single bytes in Windows-1252 and Latin-1, Chinese characters are two.
    """
    text = error.object[max(0, error.start - 1) : error.start + _HEAD_BYTES]
    longest = max(map(len, _HIGH_BYTES.findall(text)), default=0)
    if longest <= 2 and _ACCENTED_LETTER.search(text):
        return (
            "It looks like Windows-1252 or Latin-1. Save it as UTF-8 (iconv -f WINDOWS-1252 -t "
            "UTF-8 OLD > NEW)"
        )
    return (
        "Save it as UTF-8 (iconv -f GB18030 -t UTF-8 OLD > NEW for Chinese, or -f WINDOWS-1252 for "
        "Western languages; the right one shows the right characters)"
    )


def check_is_text(source_name: str, head: bytes) -> None:
    """Check that a file is UTF-8 text, by its first bytes.

    Raises:
        InputError: it is no such text; the message says what the file looks like.
    """
    if actual := next((actual for magic, actual in _MAGIC if head.startswith(magic)), None):
        raise InputError(f"{source_name}: not UTF-8 text but {actual}.")
    if (nul := head.find(b"\0")) >= 0:
        raise InputError(
            f"{source_name}: not text, found a NUL byte at byte {nul:,}. Give UTF-8 text; "
            "UTF-16 has to be converted first (iconv -f UTF-16 -t UTF-8)."
        )


def count_lines(path: SourcePath, num_bytes: int) -> int:
    """Count the lines that end in the first bytes of a file."""
    count = 0
    with path.open("rb") as file:
        while block := file.read(min(num_bytes, _BLOCK_BYTES)):
            count += block.count(b"\n")
            num_bytes -= len(block)
    return count


def find_cut(text: AnyStr, end: int, stops: Sequence[AnyStr]) -> int:
    """Find the last position up to `end` at which a line, sentence or word has just ended.

    The first of `stops` that occurs near `end` decides; if none occurs, the position is `end`.
    """
    window = max(0, end - _CUT_WINDOW)
    for stop in stops:
        if (position := text.rfind(stop, window, end)) >= 0:
            return position + len(stop)
    return end


def _character_end(raw: bytes) -> int:
    """Find the last position near the end that divides no UTF-8 character."""
    end = len(raw)
    # Bytes 10xxxxxx continue a character, at most three of them; 11xxxxxx begins one of several.
    while end > len(raw) - 4 and raw[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if raw[end - 1] >= 0xC0 else end
