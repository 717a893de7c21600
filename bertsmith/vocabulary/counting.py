"""Count the words of texts, in processes of this machine or on a cluster.

Held-out words are counted apart: the words of separate files, or of a share of the documents.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from bertsmith.data.documents import Texts, TextsInMemory, iter_documents
from bertsmith.data.reading import SourceReport
from bertsmith.data.splits import text_hash
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import InputError, option
from bertsmith.system.executor import Executor
from bertsmith.system.processes import LocalProcesses
from bertsmith.system.progress import progress_bar
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.vocabulary.cluster_counting import UnitCounter, count_on_cluster
from bertsmith.vocabulary.report import TokenizerReport
from bertsmith.vocabulary.settings import LearningSettings
from bertsmith.vocabulary.word_counts import WordCounts

WordSplitter = Callable[[str], Iterable[str]]
"""A function from a text to its words."""

BATCH_CHARS = 1 << 20
"""Characters of a batch of texts, whose words a process counts at once."""


@dataclass(frozen=True)
class Cluster:
    """Machines that count words, and a folder that all of them see."""

    executor: Executor
    folder: Path


def count_texts(
    settings: LearningSettings,
    texts: Texts,
    words: WordSplitter,
    report: TokenizerReport,
    *,
    cluster: Cluster | None = None,
) -> tuple[Counter[str], Counter[str]]:
    """Count the words to learn from and the held-out words.

    A document's own text decides whether it is held out, by the hash that also splits a corpus. So
    the documents that a corpus of the same texts holds out, with the same or a smaller share, are
    held out here, too. Small corpora may be an exception. If no document's hash is below the share,
    the corpus holds out one document all the same, and the tokenizer learns from this document.
    That is so in 45 % of corpora of 40 documents, and in 2 % of those of 200.

    Args:
        texts: files to read, or texts in memory.
        words: splits a text; must be picklable, as other processes count.
        report: is filled in with the documents and words that were read.
        cluster: machines that read and count files; by default the processes of this one.

    Raises:
        InputError: a file cannot be read, or the texts have no words.
    """
    limit = 0 if settings.held_out else settings.held_out_share * 2.0**64  # hashes have 64 bits
    if cluster is not None and not isinstance(texts, TextsInMemory):
        counter = partial(
            UnitCounter,
            words=words,
            text_column=settings.text_column,
            errors=settings.errors,
            held_out_below=limit,
        )
        counting = count_on_cluster(
            cluster.executor,
            cluster.folder,
            [*texts],
            excluded_paths=settings.held_out,
            counter=counter,
            report=report.learning,
        )
    else:
        counting = _count_here(settings, texts, words, report.learning, limit)
    with counting as (learned, held_out, num_held_out):
        report.held_out_documents = num_held_out
        # The held-out files; there are none if a share is held out.
        for document in iter_documents(
            settings.held_out,
            text_column=settings.text_column,
            errors=settings.errors,
            report=report.measuring,
        ):
            held_out.update(words(document.text))
            report.held_out_documents += 1
        most_frequent = learned.most_frequent()
        held_out_counts = held_out.most_frequent().counts
    if not most_frequent.counts:
        files = [IN_MEMORY] if isinstance(texts, TextsInMemory) else texts
        advice = "Give more text"
        if report.held_out_documents:
            advice += f", or hold out less ({option('held_out_share')}, {option('held_out')})"
        raise InputError(
            f"{', '.join(map(str, [*files][:9]))}: no word to learn from (documents: "
            f"{report.learning.documents:,}; skipped: {report.learning.describe_skipped()}; held "
            f"out: {report.held_out_documents:,}). {advice}."
        )
    report.num_words = most_frequent.total
    report.num_distinct_words = most_frequent.num_distinct
    if len(most_frequent.counts) < most_frequent.num_distinct:
        report.notes.append(
            f"The vocabulary was learned from the {len(most_frequent.counts):,} most frequent of "
            f"{most_frequent.num_distinct:,} distinct words."
        )
    return most_frequent.counts, held_out_counts


@contextmanager
def _count_here(
    settings: LearningSettings,
    texts: Texts,
    words: WordSplitter,
    report: SourceReport,
    limit: float,
) -> Iterator[tuple[WordCounts, WordCounts, int]]:
    """Yield the words to learn from, the held-out words, and the number of held-out documents.

    Documents whose hash is below `limit` are held out.
    """
    num_held_out = 0

    def texts_to_learn_from(held_out: WordCounts) -> Iterator[str]:
        """Yield the texts to learn from; count the words of the others into `held_out`."""
        nonlocal num_held_out
        documents = iter_documents(
            texts,
            held_out=settings.held_out,
            text_column=settings.text_column,
            errors=settings.errors,
            report=report,
        )
        with progress_bar("counting words", total=None) as bar:
            for document in documents:
                bar.move(report.bytes_read, report.bytes_on_disk)
                if limit and text_hash(document.text) < limit:
                    held_out.update(words(document.text))
                    num_held_out += 1
                else:
                    yield document.text

    processes = LocalProcesses(settings.processes)
    with WordCounts() as learned, WordCounts() as held_out:
        batches = group_by_size(texts_to_learn_from(held_out), BATCH_CHARS)
        with closing(processes.map_in_order(partial(_count_batch, words), batches)) as counted:
            for batch_counts in counted:
                learned.update(batch_counts)
        yield learned, held_out, num_held_out


def _count_batch(words: WordSplitter, texts: list[str]) -> Counter[str]:
    """Count the words of texts; runs in another process, so it is a function of the module."""
    return Counter(chain.from_iterable(map(words, texts)))
