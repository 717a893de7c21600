"""Reading documents: every format and compression, and one clear line for every bad input."""

import gzip
import json
import lzma
import os

import pyarrow
import pytest
import zstandard
from damage import damages
from memory_peak import peak
from pyarrow import parquet
from refusals import refuses

from bertsmith.data import documents, lines
from bertsmith.data.documents import iter_documents
from bertsmith.data.reading import SourceReport
from bertsmith.errors import InputError

DOCUMENTS = [
    "One line.",
    "Two lines,\nthe second.",
    '"Quoted", with a comma.',
    "中文。\n第二行。",
    "Last",
]
COMPRESS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def as_txt(texts):
    return "\n\n".join(texts).encode() + b"\n"


def as_jsonl(texts):
    return "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts).encode()


def as_csv(texts):
    quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
    return ("label,text\n" + "".join(f"1,{text}\n" for text in quoted)).encode()


def as_parquet(texts):
    return table_bytes(pyarrow.table({"n": range(len(texts)), "text": texts}))


def table_bytes(table):
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


FORMATS = {".txt": as_txt, ".jsonl": as_jsonl, ".csv": as_csv, ".parquet": as_parquet}


def read(*paths, **options):
    return [document.text for document in iter_documents(paths, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_and_compression_gives_the_same(tmp_path, ending, compression):
    path = tmp_path / f"Texts{ending.upper()}{compression}"
    path.write_bytes(COMPRESS[compression](FORMATS[ending](DOCUMENTS)))
    report = SourceReport()
    assert read(path, report=report) == DOCUMENTS
    assert report.documents == len(DOCUMENTS)
    assert report.files == 1
    assert report.bytes_read >= report.bytes_on_disk == path.stat().st_size
    assert not +report.skipped
    assert not +report.cut


ONE, TWO = b"one\n\n", b"two\n"
SKIPPED = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"aside"  # a frame of other data


@pytest.mark.parametrize("ending, data", [
    ("xz", lzma.compress(ONE) + bytes(8) + lzma.compress(TWO) + bytes(4)),  # padded
    ("gz", b"".join(gzip.compress(part, mtime=0) for part in (ONE, TWO))),
    ("zst", zstandard.compress(ONE) + SKIPPED + zstandard.compress(TWO) + SKIPPED),
])  # fmt: skip
def test_all_streams_of_a_file_are_read_or_it_is_refused(tmp_path, ending, data):
    path = tmp_path / f"a.txt.{ending}"
    for damaged, worded in ((data[:-9], True), (data + b"x", ending == "xz")):
        path.write_bytes(damaged)
        with refuses(InputError, f"{path}:", f".{ending} data", worded=worded):
            read(path)
    path.write_bytes(data)
    assert read(path) == ["one", "two"]


@pytest.mark.parametrize("ending, compress", [
    ("gz", gzip.compress), ("xz", lzma.compress),
    ("zst", zstandard.ZstdCompressor(write_checksum=True).compress),
])  # fmt: skip
def test_random_damage_of_a_compressed_file_changes_no_text(tmp_path, ending, compress):
    path = tmp_path / f"a.txt.{ending}"
    for damaged in damages(compress(ONE + TWO), 150):
        path.write_bytes(damaged)
        try:
            found = read(path)
        except InputError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        else:  # some bits say nothing of the text, and a file may be there twice
            assert found in (["one", "two"], ["one", "two"] * 2)


def test_a_zst_window_that_is_too_wide_is_no_damage(tmp_path):
    settings = zstandard.ZstdCompressionParameters(window_log=28)
    writer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    (tmp_path / "a.txt.zst").write_bytes(writer.compress(b"text ") + writer.flush())
    with refuses(InputError, "a.txt.zst:", "128 MiB", "zstd -d --long=31"):
        read(tmp_path)


def test_windows_lines_and_a_byte_order_mark_leave_no_trace(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n \t\r\nthree\r\n")
    assert read(path) == ["one\ntwo", "three"]
    table = tmp_path / "a.csv"
    table.write_bytes(b'\xef\xbb\xbftext,n\r\n"a\r\nb",1\r\n\r\nc,2\r\n')
    assert read(table) == ["a\r\nb", "c"]
    table = tmp_path / "a.tsv"  # where quotes are characters
    table.write_text('sentence\tlabel\na "quoted word\t1\n"two" words\t0\n')
    assert read(table, text_column="sentence") == ['a "quoted word', '"two" words']


def test_paths_are_sorted_and_each_file_is_read_once(tmp_path):
    (tmp_path / "sub").mkdir()
    tokenizer = "sub/vocab.txt", "sub/merges.txt", "sub/tokenizer_config.json"  # is no text
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden.txt", *tokenizer):
        (tmp_path / name).write_text(name)
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "back").symlink_to(tmp_path)
    os.link(tmp_path / "b.txt", tmp_path / "z.txt")
    report = SourceReport()
    found = read(tmp_path / "b.txt", tmp_path, tmp_path / "*.txt", report=report)
    assert found == ["a.txt", "b.txt", "sub/c.txt"]
    assert report.files == 3
    assert report.skipped["unsupported_files"] == 3
    assert read(tmp_path / "*") == found
    assert report.skipped["repeated_files"] > 0


NOT_UTF8 = pyarrow.array([b"good", b"b\xffd"], pyarrow.binary()).view(pyarrow.string())
BAD = {
    "empty.txt": (b"", "--errors skip"),
    "nul.txt": (b"a\n" * 9000 + b"\0", ":9001:", "NUL", "byte 18,000"),
    "latin.txt": (b"good\ncaf\xe9 noir\n", ":2:", "0xe9", "byte 8"),
    "mac.txt": (b"one\r\rtwo\r", ":1:", "CR"),
    "utf16.txt": ("text".encode("utf-16"), "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    "other.jsonl": (b'{"body": "a"}\n', ":1:", "'text'", "'body'", "--text-column"),
    "other.csv": (b"a,b\n1,2\n", ":1:", "'text'", "'a', 'b'", "--text-column"),
    "fields.csv": (b"text,n\na,1\nb\n", ":3:", "found 1", "names 2", "--errors skip"),
    "bytes.parquet": (table_bytes(pyarrow.table({"text": NOT_UTF8})), "row 2:", "0xff", "byte 1"),
    "other.parquet": (table_bytes(pyarrow.table({"b": ["a"]})), "'text'", "'b'", "--text-column"),
    "numbers.parquet": (table_bytes(pyarrow.table({"text": [1]})), "'text'", "int64"),
    "unknown.doc": (b"text", ".txt, .jsonl, .csv"),
    "packed.txt.bz2": (b"BZh", "not read (.bz2)", "bunzip2 -k"),
}
FOREIGN = {  # where another program's words stand in the message
    "bad.txt.zst": (b"not compressed", "damaged"),
    "flipped.txt.gz": (gzip.compress(b"text" * 99)[:-8] + b"12345678", "damaged", "the file again"),
    "cut.parquet": (as_parquet(["text"])[:-20], "damaged"),
    "names.parquet": (as_parquet(["a"]).replace(b"text", b"t\xe4xt"), "damaged"),
    "bad.jsonl": (b'{"text": "a"}\n{"text": \n', ":2: not JSON", "column 10", "--errors skip"),
    "quote.csv": (b'text\n"a" b\n', ":2: the row cannot be read"),
    "semicolons.csv": (
        b'"text";"id"\n"a";"1"\n',
        ":1:",
        "Do semicolons separate the columns? In a .csv file",
    ),
}


@pytest.mark.parametrize("name", [*BAD, *FOREIGN])
def test_bad_input_is_one_clear_line(tmp_path, name):
    content, *parts = (BAD | FOREIGN)[name]
    path = tmp_path / name
    path.write_bytes(content)
    with refuses(InputError, *parts, worded=name in BAD) as caught:
        read(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.txt", "*.txt", "empty"])
def test_paths_that_name_nothing(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with refuses(InputError, f"{tmp_path / name}:"):
        iter_documents([tmp_path / name])  # at once, not at the first document
    (tmp_path / "a.pdf").write_text("x")
    with refuses(InputError, f"{tmp_path}:", "1 × .pdf", ".txt, .jsonl, .csv"):
        iter_documents([tmp_path])


def test_skipping_counts_and_goes_on(tmp_path):
    text = b"good\nb\xffd\nfine\n\nn\0l\n\nlast"
    (tmp_path / "a.txt").write_bytes(b"x\n" * 5000 + b"\n" + text)
    rows = b'{"text": "a"}\n{\n{"text": 1}\n{"text": "a", "text": "b"}\n{}\n[]\n{"text": "b"}\n'
    rows += b'{"text": NaN}\n{"text": "cut \\ud83d"}\n'
    (tmp_path / "b.jsonl").write_bytes(rows)
    (tmp_path / "c.csv").write_bytes(b'text,n\nc,1\n"x" y,1\nz\nd,2\n')
    (tmp_path / "d.txt").write_bytes(b"")
    report = SourceReport()
    found = read(tmp_path, errors="skip", report=report)
    assert found[1:] == ["good\nfine", "last", "a", "b", "cut \ufffd", "c", "d"]
    assert report.skipped == {
        "invalid_utf8": 1, "nul_bytes": 1, "bad_json": 3, "not_a_string": 1, "missing_column": 1,
        "bad_rows": 2, "empty_files": 1, "empty_documents": 1,
    }  # fmt: skip


@pytest.mark.parametrize("header", [
    b'"text,n\n', b'"text" x,n\n', b"text,\xff\n", b"name,n\n", b"text,text\n",
])  # fmt: skip
def test_a_bad_header_is_an_error_also_where_rows_are_skipped(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n\n" + header + b"a,1\ntext,2\nb,3\n")
    for errors in ("skip", "strict"):
        with refuses(InputError, "a.csv:3: ", worded=False) as caught:
            read(path, errors=errors)
        assert "--errors" not in str(caught.value)
    path.write_bytes(b"\n\ntext,n\na,1\n\xff,2\nb,3\n")
    assert read(path, errors="skip") == ["a", "b"]


@pytest.mark.parametrize("bad, after", [
    ('"never closed,1\n', ""), ('"closed by a later row,1\n', 'last,"1"\n'),
])  # fmt: skip
def test_an_open_quote_takes_no_other_row_with_it(tmp_path, bad, after):
    path = tmp_path / "a.csv"
    rows = "".join(f"row {n},1\n" for n in range(3000))
    path.write_text("text,n\nbefore,1\n" + bad + rows + after)
    report = SourceReport()
    found = read(path, errors="skip", report=report)
    assert found[:2] == ["before", "row 0"]
    assert len(found) == 1 + 3000 + after.count("\n")
    assert report.skipped == {"bad_rows": 1}
    with refuses(InputError, "a.csv:3:", "--errors skip", worded=not after):
        read(path)


@pytest.mark.parametrize("unit", ["word ", "长句子。没有尽头"])
def test_long_lines_and_documents_are_divided_and_lose_nothing(tmp_path, monkeypatch, unit):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1009)
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARS", 3001)
    text = unit * 2003
    for ending in (".txt", ".jsonl"):
        path = tmp_path / f"a{ending}"
        path.write_bytes(FORMATS[ending](["before", text, "after"]))
        report = SourceReport()
        first, *parts, last = read(path, report=report)
        assert (first, last) == ("before", "after")
        assert "".join("".join(parts).split()) == "".join(text.split())
        assert all(1000 < len(part) <= 3001 for part in parts[:-1])
        assert report.cut["long_documents"] == (len(parts) > 1)
        assert report.cut["long_lines"] == (ending == ".txt")


def test_a_line_without_end_takes_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2**18)
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARS", 2**19)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(COMPRESS[".gz"](b"one long line " * 2**19 * 3))  # 22 MB
    found = []
    held = peak(lambda: found.append(sum(map(len, iter_documents([path])))))
    assert found == [pytest.approx(21 * 2**20, abs=1000)]
    assert held < 2**24
