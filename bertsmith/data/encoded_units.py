"""Write and read encoded work units, from which a corpus is written later.

A work unit is a part of the texts that one of several processes encodes. An encoded unit is a
folder such as `00012`. It has .npy files and `unit.json`, the completion marker: a record of the
build's plan, the counts and the checksums. The folder is written under a temporary name and renamed
when it is whole, so a unit is complete or absent, whatever ends the process.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.corpus import TOKENIZER_DIR
from bertsmith.data.documents import DocumentReader
from bertsmith.data.encoding import PARTITION_BYTES, EncodedPart, Encoder
from bertsmith.data.npy import NpyWriter
from bertsmith.data.reading import Errors, SourceReport
from bertsmith.data.work_units import WorkUnit, check_is_seen
from bertsmith.errors import CorpusError
from bertsmith.system.files import atomic_dir, sha256_file, write_json
from bertsmith.system.json_text import parse_json
from bertsmith.system.small_files import read_small_file
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.grouping import group_by_size

MARKER_NAME = "unit.json"
DOCUMENTS_AT_ONCE = 1 << 12
"""Documents of a unit that are read back at once."""
_DTYPES_BESIDE_IDS: dict[str, np.dtype[Any]] = {
    "sentences": np.dtype(np.int32),
    "documents": np.dtype(np.int32),
    "characters": np.dtype(np.int32),
    "hashes": np.dtype(np.uint64),
}
"""Names and types of a unit's arrays, except `ids`, whose type depends on the vocabulary."""


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """Content of a completion marker, by which a process sees whether a unit is complete."""

    plan: str
    """Digest of the plan of the build, which names its texts, settings and units."""
    index: int
    num_bytes: int
    """Size of the unit's texts on disk."""
    documents: int
    tokens: int
    report: dict[str, Any]
    """Counts of what was read and skipped, from `SourceReport.to_json`."""
    files: dict[str, tuple[int, str]]
    """Size in bytes and SHA-256 by name."""
    texts: str
    """Digest of the sizes and times of the texts; see `_digest_texts`."""


@dataclass(frozen=True, slots=True)
class UnitEncoder:
    """Encoder of work units to files, in any process that sees the folder.

    Args:
        folder: holds the encoded units and a copy of the tokenizer.
        plan: digest of the plan of the build.
        text_column, errors: as in `CorpusSettings`.
    """

    folder: Path
    plan: str
    text_column: str
    errors: Errors

    def __call__(self, unit: WorkUnit) -> UnitRecord:
        """Encode a unit, unless its folder is complete and its texts are as they were.

        Raises:
            InputError: the texts cannot be read or the folder cannot be written, for example
            because this machine does not see them.
        """
        check_is_seen(self.folder / TOKENIZER_DIR)
        for partition in unit.partitions:
            check_is_seen(partition.source.path)
        directory = unit_folder(self.folder, unit.index)
        texts = _digest_texts(unit)
        record = read_record(directory, self.plan)
        if record is None or record.texts != texts:
            try:
                record = self._write(unit, directory, texts)
            except Exception as error:
                error.add_note(f"While encoding {unit}")
                raise
        return record

    def _write(self, unit: WorkUnit, directory: Path, texts: str) -> UnitRecord:
        encoder = _encoder_of(self.folder, self.plan)
        reader = DocumentReader(self.text_column, self.errors)
        report = SourceReport()
        documents = chain.from_iterable(reader.read(part, report) for part in unit.partitions)
        with atomic_dir(directory) as folder:
            dtypes = {"ids": encoder.id_dtype, **_DTYPES_BESIDE_IDS}
            with ExitStack() as stack:
                files = {
                    name: NpyWriter(stack.enter_context(_path(folder, name).open("wb")), dtype)
                    for name, dtype in dtypes.items()
                }
                for group in group_by_size(documents, PARTITION_BYTES):
                    part = encoder.encode([document.text for document in group], report)
                    files["ids"].append(part.ids)
                    files["sentences"].append(part.sentence_lengths)
                    files["documents"].append(part.document_lengths)
                    files["characters"].append(part.characters)
                    files["hashes"].append(part.text_hashes)
                for file in files.values():
                    file.finish()
            paths = [_path(folder, name) for name in dtypes]
            record = UnitRecord(
                plan=self.plan,
                index=unit.index,
                num_bytes=unit.num_bytes,
                documents=files["documents"].shape[0],
                tokens=files["ids"].shape[0],
                report=report.to_json(),
                files={path.name: (path.stat().st_size, sha256_file(path)) for path in paths},
                texts=texts,
            )
            write_json(folder / MARKER_NAME, asdict(record))
        return record


_local = threading.local()
"""Encoder of each thread: an executor may call several threads of a process."""


def _encoder_of(folder: Path, plan: str) -> Encoder:
    """Return this thread's encoder; the tokenizer is loaded once for a folder and plan."""
    if getattr(_local, "key", None) != (folder, plan):
        tokenizer = load_tokenizer(folder / TOKENIZER_DIR)
        # The encoder gets texts that are already read, so any reader will do.
        _local.encoder = Encoder(tokenizer, DocumentReader())
        _local.key = folder, plan
    return _local.encoder


def _digest_texts(unit: WorkUnit) -> str:
    """Compute the SHA-256 of the sizes and modification times of a unit's texts.

    The plan has their sizes alone, since copies on several machines may differ in time. A text that
    was edited in place, such as with `sed -i`, often keeps its size.
    """
    states = []
    for partition in unit.partitions:
        status = partition.source.path.stat()
        states.append((status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(states).encode()).hexdigest()


def unit_folder(folder: Path, index: int) -> Path:
    return folder / f"{index:05d}"


def read_record(directory: Path, plan: str) -> UnitRecord | None:
    """Read the completion marker in a unit's folder.

    The result is None if there is no marker, if it is damaged or of another plan, or if a file that
    it lists is missing or has another size.
    """
    record_type, report_type = _record_types()
    try:
        fields = parse_json(read_small_file(directory / MARKER_NAME))
        record: UnitRecord = record_type.validate_python(fields)
        report_type.validate_python(record.report)
        SourceReport.from_json(record.report)  # a KeyError if it lacks the counts by reason
        is_whole = record.plan == plan and all(
            (directory / name).stat().st_size == size for name, (size, _) in record.files.items()
        )
    except (OSError, ValueError, KeyError):  # errors of validation are ValueErrors
        return None
    return record if is_whole else None


@cache
def _record_types() -> tuple[Any, Any]:
    """Return the validators of completion markers and of the report in each."""
    from pydantic import TypeAdapter

    return TypeAdapter(UnitRecord), TypeAdapter(SourceReport)


def iter_encoded(directory: Path, record: UnitRecord) -> Iterator[EncodedPart]:
    """Yield the documents of a unit, some thousands at a time; the first part has the report.

    Raises:
        CorpusError: a file was altered.
    """
    for name, (_, sha256) in record.files.items():
        if sha256_file(directory / name) != sha256:
            raise CorpusError(
                f"{directory / name}: was altered after it was written. Remove {directory}, and "
                "run its shard again."
            )
    names = ("ids", *_DTYPES_BESIDE_IDS)
    arrays = {name: np.load(_path(directory, name), mmap_mode="r") for name in names}
    report = SourceReport.from_json(record.report)
    first_sentence = first_token = 0
    # At least one part, since a unit without documents has a report, too.
    for start in range(0, max(1, record.documents), DOCUMENTS_AT_ONCE):
        document_lengths = np.asarray(arrays["documents"][start : start + DOCUMENTS_AT_ONCE])
        sentence_end = first_sentence + int(document_lengths.sum())
        sentence_lengths = np.asarray(arrays["sentences"][first_sentence:sentence_end])
        token_end = first_token + int(sentence_lengths.sum())
        yield EncodedPart(
            ids=np.asarray(arrays["ids"][first_token:token_end]),
            sentence_lengths=sentence_lengths,
            document_lengths=document_lengths,
            characters=np.asarray(arrays["characters"][start : start + DOCUMENTS_AT_ONCE]),
            text_hashes=np.asarray(arrays["hashes"][start : start + DOCUMENTS_AT_ONCE]),
            report=report,
        )
        report = SourceReport()  # the counts of the unit went with the first documents
        first_sentence, first_token = sentence_end, token_end


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"
