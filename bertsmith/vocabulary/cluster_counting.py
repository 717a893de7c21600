"""Count the words of texts on machines that share a folder.

The texts are divided into work units, each of them some files or a part of a large one. Each worker
counts the words of units into sorted files. Workers merge these files in groups until few are left.
No process holds more than a few million words, and only paths and reports are sent over the
network.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from bertsmith.data.documents import DocumentReader, select_sources
from bertsmith.data.reading import Errors, SourceReport
from bertsmith.data.splits import text_hash
from bertsmith.data.work_units import WorkUnit, check_is_seen, plan_work_units, total_bytes
from bertsmith.system.executor import Executor
from bertsmith.system.progress import progress_bar
from bertsmith.system.write_error import naming_write_errors
from bertsmith.vocabulary.word_counts import WordCounts, merge_counts, read_counts, write_counts

COUNTS_DIR = "word-counts"
"""Folder of counts inside the tokenizer's folder, removed when all are counted and merged."""
FILES_AT_ONCE = 32
"""Files that are merged at once, all of them open."""


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Counts of a work unit: a file of the words to learn from, and one of the held-out words."""

    learned: Path
    held_out: Path
    held_out_documents: int
    num_bytes: int
    """Size of the unit's texts on disk, for the progress."""
    report: SourceReport


@dataclass(frozen=True, slots=True)
class UnitCounter:
    """Counter of the words of work units; runs in any process that can write to `folder`.

    Documents whose `text_hash`, a number of 64 bits, is below `held_out_below` are held out.
    """

    folder: Path
    words: Callable[[str], Iterable[str]]
    """Splits a text into words."""
    text_column: str
    errors: Errors
    held_out_below: float

    def __call__(self, unit: WorkUnit) -> UnitCounts:
        """Count the words of a unit.

        Raises:
            InputError: the texts cannot be read, or this machine lacks access to them or to the
            folder.
        """
        check_is_seen(self.folder)  # raises an error if this machine does not see the path
        for partition in unit.partitions:
            check_is_seen(partition.source.path)
        reader = DocumentReader(self.text_column, self.errors)
        report = SourceReport()
        held_out_documents = 0
        learned_path, held_out_path = (
            # 0: the level in the tree of merges, see `_merge_as_tree`
            self.folder / f"{name}-0-{unit.index:05d}.arrow"
            for name in ("learned", "held_out")
        )
        documents = chain.from_iterable(reader.read(part, report) for part in unit.partitions)
        with WordCounts() as learned, WordCounts() as held_out:
            for document in documents:
                is_held_out = text_hash(document.text) < self.held_out_below
                held_out_documents += is_held_out
                counts = held_out if is_held_out else learned
                counts.update(self.words(document.text))
            learned.write(learned_path)
            held_out.write(held_out_path)
        return UnitCounts(learned_path, held_out_path, held_out_documents, unit.num_bytes, report)


@dataclass(frozen=True, slots=True)
class FilesToMerge:
    """Files of counts, and the file that they are merged into."""

    paths: tuple[Path, ...]
    merged: Path

    def __str__(self) -> str:
        # The executor's error names the work at which workers died.
        return f"the merging of {len(self.paths)} files of word counts into {self.merged}"


def merge_files(files: FilesToMerge) -> Path:
    """Merge files of counts, in any process that sees them; return the path of the merged file."""
    # If a worker dies after it has written the file, another one gets the same work.
    if not files.merged.exists():
        write_counts(files.merged, merge_counts([*map(read_counts, files.paths)]))
    return files.merged


@contextmanager
def count_on_cluster(
    executor: Executor,
    out: Path,
    paths: Sequence[str | Path],
    excluded_paths: Sequence[str | Path],
    counter: Callable[[Path], UnitCounter],
    report: SourceReport,
) -> Iterator[tuple[WordCounts, WordCounts, int]]:
    """Yield the words to learn from, the held-out words, and the number of held-out documents.

    Args:
        executor: runs the counter on the workers.
        out: the folder of the tokenizer, which all machines see. Counts that an earlier attempt
            left there are removed.
        paths: files, folders and patterns of the texts.
        excluded_paths: files that are not counted, even if `paths` contain them.
        counter: returns the counter that writes its files to the given folder.
        report: is filled in with the documents and bytes that were read.

    Raises:
        InputError: a file cannot be read.
    """
    folder = (out / COUNTS_DIR).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    sources = select_sources(paths, report, excluded_paths)
    units = plan_work_units([replace(source, path=source.path.absolute()) for source in sources])
    try:
        with naming_write_errors(folder):
            folder.mkdir()
        all_counts = []
        with (
            progress_bar("counting words", total_bytes(units)) as bar,
            closing(executor.map_in_order(counter(folder), units)) as counted,
        ):
            for unit_counts in counted:
                all_counts.append(unit_counts)
                report.add(unit_counts.report)
                bar(unit_counts.num_bytes)
        learned_paths = _merge_as_tree(executor, [each.learned for each in all_counts])
        held_out_paths = _merge_as_tree(executor, [each.held_out for each in all_counts])
        with WordCounts() as learned_words, WordCounts() as held_out_words:
            for path in learned_paths:
                learned_words.add_file(path)
            for path in held_out_paths:
                held_out_words.add_file(path)
            yield (
                learned_words,
                held_out_words,
                sum(each.held_out_documents for each in all_counts),
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _merge_as_tree(executor: Executor, paths: Sequence[Path]) -> Sequence[Path]:
    """Merge files in groups on the executor, until `FILES_AT_ONCE` or fewer are left.

    Return the paths of these; files that were merged are removed.
    """
    level = 0
    while len(paths) > FILES_AT_ONCE:
        level += 1
        starts = range(0, len(paths), FILES_AT_ONCE)
        groups = [paths[start : start + FILES_AT_ONCE] for start in starts]
        name = paths[0].name.partition("-")[0]  # learned or held_out
        tasks = [
            FilesToMerge(tuple(group), group[0].with_name(f"{name}-{level}-{number:05d}.arrow"))
            for number, group in enumerate(groups)
        ]
        merged = list(executor.map_in_order(merge_files, tasks))
        for path in paths:
            path.unlink()
        paths = merged
    return paths
