"""Training of a tokenizer on text files, and evaluation on held-out text.

Held-out text comes from separate files, or is a share of the documents.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from bertsmith.data.documents import Texts, TextsInMemory, iter_documents
from bertsmith.data.reading import SourceReport
from bertsmith.data.splits import text_hash
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import ConfigError, InputError, option
from bertsmith.system.checksums import SUMS_FILE
from bertsmith.system.compute import is_installed
from bertsmith.system.executor import Executor
from bertsmith.system.files import atomic_dir
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside
from bertsmith.system.processes import LocalProcesses
from bertsmith.system.progress import progress_bar
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer, clean_words
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import ALBERT_STEPS, Step, UnigramNormalizer, UnigramTokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.byte_bpe import learn_byte_bpe
from bertsmith.vocabulary.cluster_counting import COUNTS_DIR, UnitCounter, count_on
from bertsmith.vocabulary.origin import ORIGIN_NAME
from bertsmith.vocabulary.segmentation import CONTINUATION
from bertsmith.vocabulary.settings import LearningSettings, TokenizerSettings
from bertsmith.vocabulary.stats import TokenizerStats, tokenizer_stats
from bertsmith.vocabulary.word_counts import WordCounts
from bertsmith.vocabulary.wordpiece import (
    SPECIAL_TOKENS,
    LearnedVocabulary,
    check_size,
    choose_alphabet,
    learn_wordpiece,
)

TOKENIZER_FILES = frozenset(
    {"vocab.txt", "vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", SUMS_FILE,
     ORIGIN_NAME, COUNTS_DIR}
)  # fmt: skip
UNIGRAM_SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
"""ALBERT's special tokens, in the order of their ids in ALBERT."""

WORDS_PER_LINE = 1 << 12


def learn_with_library(
    counts: Mapping[str, int], vocab_size: int, *, alphabet_size: int, min_frequency: int
) -> list[str]:
    """Train WordPiece with the library, which merges the most frequent pair.

    Args:
        counts: words as our tokenizer splits them; the library does not split them further.
        alphabet_size: number of characters that the library may keep.
    """
    from tokenizers import models, trainers

    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=alphabet_size,
        special_tokens=list(SPECIAL_TOKENS),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    ids = _train(models.WordPiece(), trainer, counts).get_vocab()
    return sorted(ids, key=ids.__getitem__)


def learn_unigram(
    counts: Mapping[str, int], vocab_size: int, *, character_coverage: float = 0.9999
) -> LearnedVocabulary:
    """Train a unigram model with the library (Kudo 2018, section 3.2).

    Args:
        counts: words, each with `▁` before it, of any length: in languages without spaces they are
            clauses.
        character_coverage: share of all characters that must have a token. The rarest characters
            beyond it divide a word, and tokens are learned from the parts between them.

    Raises:
        ConfigError: the library is not installed, or `vocab_size` cannot hold the alphabet.
    """
    if not is_installed("tokenizers"):
        raise ConfigError(
            f"{option('kind', 'unigram')} is learned by the tokenizers library, which is not "
            f"installed. Run 'pip install tokenizers', or choose {option('kind', 'wordpiece')} or "
            "byte-bpe."
        )
    from tokenizers import models, trainers

    alphabet, dropped = choose_alphabet(counts, character_coverage)
    characters = set(alphabet)
    whole = {word: count for word, count in counts.items() if characters.issuperset(word)}
    parts = Counter(whole)
    for word in counts.keys() - whole.keys():
        for part in "".join(c if c in characters else " " for c in word).split():
            parts[part] += counts[word]
    check_size(vocab_size, len(UNIGRAM_SPECIAL_TOKENS), len(alphabet), character_coverage)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=list(UNIGRAM_SPECIAL_TOKENS),
        unk_token="<unk>",
        initial_alphabet=alphabet,
        show_progress=False,
    )
    trained = json.loads(_train(models.Unigram(), trainer, parts).to_str())
    # A special token that also occurs in the text can be learned a second time.
    pieces: dict[str, float] = {}
    for piece, score in trained["model"]["vocab"]:
        pieces.setdefault(piece, score)
    return LearnedVocabulary(
        tokens=list(pieces),
        alphabet=alphabet,
        dropped_characters=dropped,
        skipped_words=sum(counts.values()) - sum(whole.values()),
        scores=list(pieces.values()),
    )


def _train(model: Any, trainer: Any, counts: Mapping[str, int]) -> Any:
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.train_from_iterator(_lines(counts), trainer)
    return tokenizer


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield lines that together repeat each word as often as it was counted."""
    for word in sorted(counts):
        lines, rest = divmod(counts[word], WORDS_PER_LINE)
        for length in [WORDS_PER_LINE] * lines + [rest]:
            yield f"{word} " * length


Words = Callable[[str], Iterable[str]]

BATCH_CHARS = 1 << 20


def _count_batch(words: Words, texts: list[str]) -> Counter[str]:
    return Counter(chain.from_iterable(map(words, texts)))


def word_splitter(settings: TokenizerSettings) -> Words:
    """Return the function that splits text into words as the trained tokenizer does."""
    if settings.kind == "byte-bpe":
        return clean_words
    if settings.kind == "unigram":
        return UnigramNormalizer(unigram_steps(settings), b"").words
    return Normalizer(lowercase=settings.lowercase, strip_accents=settings.strip_accents).words


def unigram_steps(settings: TokenizerSettings) -> tuple[Step, ...]:
    """Return the steps by which a unigram tokenizer normalizes text."""
    strips = settings.lowercase if settings.strip_accents is None else settings.strip_accents
    dropped = {"lowercase"} if not settings.lowercase else set()
    dropped |= {"decompose", "strip_accents"} if not strips else set()
    return tuple(step for step in ALBERT_STEPS if step not in {*dropped, "charsmap"})


@dataclass(frozen=True)
class Cluster:
    """Machines that count words, and a folder that all of them see."""

    executor: Executor
    folder: Path


@dataclass
class TokenizerReport:
    """Report of training: texts read, words counted, and evaluation results."""

    learning: SourceReport = field(default_factory=SourceReport)
    """All documents of `files`, including the held-out share."""
    measuring: SourceReport = field(default_factory=SourceReport)
    """The documents of `held_out`."""
    held_out_documents: int = 0
    num_words: int = 0
    num_distinct_words: int = 0
    stats: dict[str, TokenizerStats] = field(default_factory=dict)
    """Statistics on held-out text by name of the trainer; empty without held-out text."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user: a figure that is missing, a vocabulary that came out small."""
    seconds: dict[str, float] = field(default_factory=dict)


def write_tokenizer(
    settings: TokenizerSettings,
    out: Path,
    texts: Texts | None = None,
    *,
    executor: Executor | None = None,
    overwrite: bool = False,
) -> tuple[Tokenizer, LearnedVocabulary, TokenizerReport]:
    """Train a tokenizer as `train_tokenizer` does, and write its folder.

    Args:
        executor: machines that count words and see the files and the folder; by default this one.

    Raises:
        ConfigError: the folder holds files that must not be replaced; and as `train_tokenizer`.
        InputError: as `train_tokenizer`.
    """
    check_outside(out, *settings.files)
    with hold_folder(out, lambda: check_tokenizer_out(out, overwrite)):
        cluster = None if executor is None else Cluster(executor, out)
        trained = train_tokenizer(settings, texts, cluster=cluster)
        with atomic_dir(out) as folder:
            trained[0].save(folder)
    return trained


def check_tokenizer_out(out: Path, overwrite: bool) -> None:
    """Refuse a folder unless it is empty or a tokenizer to overwrite.

    Raises:
        ConfigError: the folder holds other files, or a tokenizer without `overwrite`.
    """
    if {path.name for path in out.iterdir()} <= {COUNTS_DIR}:  # left by a command that was killed
        return
    others = sorted({path.name for path in out.iterdir()} - TOKENIZER_FILES)
    if others:
        raise ConfigError(
            f"{out}: holds more than a tokenizer ({', '.join(others[:3])}). Choose another "
            f"{option('out')}."
        )
    if not overwrite:
        raise ConfigError(
            f"{out}: holds a tokenizer. Pass {option('overwrite', True)} to replace it, or choose "
            f"another {option('out')}."
        )


def train_tokenizer(
    settings: TokenizerSettings, texts: Texts | None = None, *, cluster: Cluster | None = None
) -> tuple[Tokenizer, LearnedVocabulary, TokenizerReport]:
    """Train a tokenizer on the files of the settings, or on `texts` in their place.

    The order of the files does not change the result, except for unigram models: the library that
    trains them adds numbers in no fixed order.

    Raises:
        InputError: a file cannot be read, or the texts have no words.
        ConfigError: the vocabulary size cannot hold the alphabet, or a worker process was ended
            from outside.
    """
    report = TokenizerReport()

    @contextmanager
    def step(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        report.seconds[name] = round(time.perf_counter() - started, 2)

    with step("counting words"):
        counts, held_out = count_texts(
            settings, texts or settings.files, word_splitter(settings), report, cluster=cluster
        )
    with step("learning pieces"):
        tokenizer, learned = _learn(settings, counts)
    with step("measuring"):
        _measure(settings, report, learned, tokenizer, counts, held_out)
    return tokenizer, learned, report


def _learn(
    settings: TokenizerSettings, counts: Counter[str]
) -> tuple[Tokenizer, LearnedVocabulary]:
    size = settings.vocab_size
    length = settings.model_max_length
    least = settings.min_frequency
    coverage = settings.character_coverage
    if settings.kind == "byte-bpe":
        learned = learn_byte_bpe(counts, size, min_frequency=least)
        return ByteBpeTokenizer(learned.tokens, learned.merges, model_max_length=length), learned
    if settings.kind == "unigram":
        learned = learn_unigram(counts, size, character_coverage=coverage)
        unigram = UnigramTokenizer(
            learned.tokens, learned.scores, steps=unigram_steps(settings), model_max_length=length
        )
        return unigram, learned
    learned = learn_wordpiece(
        counts,
        size,
        rule=settings.rule,
        min_frequency=least,
        character_coverage=coverage,
        surplus=settings.surplus,
    )
    wordpiece = WordPieceTokenizer(
        learned.tokens,
        lowercase=settings.lowercase,
        strip_accents=settings.strip_accents,
        model_max_length=length,
    )
    return wordpiece, learned


def count_texts(
    settings: LearningSettings,
    texts: Texts,
    words: Words,
    report: TokenizerReport,
    *,
    cluster: Cluster | None = None,
) -> tuple[Counter[str], Counter[str]]:
    """Count the words to learn from and the held-out words.

    A document's own text decides whether it is held out, by the hash that also splits a corpus:
    documents that a corpus of the same texts holds out by a smaller share are held out here too.
    Small corpora are an exception: if no document's hash is below the share, the corpus holds out
    one all the same, and the tokenizer learns from it here (in 43 % of corpora of 40 documents, in
    2 % of those of 200).

    Args:
        words: splits a text; must be picklable, as other processes count.
        report: is filled in with the documents and words that were read.
        cluster: machines that read and count files; by default the processes of this one.

    Raises:
        InputError: a file cannot be read, or the texts have no words.
    """
    limit = 0 if settings.held_out else settings.held_out_share * 2.0**64
    if cluster is not None and not isinstance(texts, TextsInMemory):
        counter = partial(
            UnitCounter,
            words=words,
            text_column=settings.text_column,
            errors=settings.errors,
            held_out_below=limit,
        )
        counting = count_on(
            cluster.executor, cluster.folder, [*texts], settings.held_out, counter, report.learning
        )
    else:
        counting = _count_here(settings, texts, words, report.learning, limit)
    with counting as (learned, held_out, num_held_out):
        report.held_out_documents = num_held_out
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
    settings: LearningSettings, texts: Texts, words: Words, report: SourceReport, limit: float
) -> Iterator[tuple[WordCounts, WordCounts, int]]:
    """Yield the words to learn from, the held-out words, and the number of held-out documents."""
    num_held_out = 0

    def learned_from(held_out: WordCounts) -> Iterator[str]:
        nonlocal num_held_out
        documents = iter_documents(
            texts,
            held_out=settings.held_out,
            text_column=settings.text_column,
            errors=settings.errors,
            report=report,
        )
        with progress_bar("counting words", None) as bar:
            for document in documents:
                bar.move(report.bytes_read, report.bytes_on_disk)
                if limit and text_hash(document.text) < limit:
                    held_out.update(words(document.text))
                    num_held_out += 1
                else:
                    yield document.text

    processes = LocalProcesses(settings.processes)
    with WordCounts() as learned, WordCounts() as held_out:
        batches = group_by_size(learned_from(held_out), BATCH_CHARS)
        with closing(processes.map_in_order(partial(_count_batch, words), batches)) as counted:
            for part in counted:
                learned.update(part)
        yield learned, held_out, num_held_out


def _measure(
    settings: TokenizerSettings,
    report: TokenizerReport,
    learned: LearnedVocabulary,
    tokenizer: Tokenizer,
    counts: Counter[str],
    held_out: Counter[str],
) -> None:
    if len(learned.tokens) < settings.vocab_size:
        reason = f"no other pair of tokens occurs {settings.min_frequency} times"
        if settings.kind == "wordpiece":
            reason += " and has a score above zero"
        if settings.kind == "unigram":
            reason = "no other string occurs often enough"
        report.notes.append(
            f"The vocabulary has {len(learned.tokens):,} tokens, not {settings.vocab_size:,}: "
            f"{reason}. More text gives more."
        )
    if not held_out:
        report.notes.append(
            f"Nothing was held out, so nothing was measured. Name a text with {option('held_out')}."
        )
        return
    column = "bertsmith" if settings.kind == "wordpiece" else settings.kind
    report.stats[column] = tokenizer_stats(tokenizer, held_out)
    if settings.kind != "wordpiece" or not settings.compare:
        return
    if not is_installed("tokenizers"):
        report.notes.append("The tokenizers library is not installed, so it was not compared.")
        return
    tokens = learn_with_library(
        counts,
        settings.vocab_size,
        alphabet_size=len(learned.alphabet),
        min_frequency=settings.min_frequency,
    )
    report.stats["tokenizers library"] = tokenizer_stats(WordPieceTokenizer(tokens), held_out)
