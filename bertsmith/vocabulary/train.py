"""Training of a tokenizer on text files, and evaluation on held-out text.

Held-out text comes from separate files, or is a share of the documents.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertsmith.data.documents import Texts
from bertsmith.errors import ConfigError, option
from bertsmith.system.checksums import SUMS_FILE
from bertsmith.system.compute import is_installed
from bertsmith.system.executor import Executor
from bertsmith.system.files import atomic_dir, check_is_replaceable
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside
from bertsmith.tokenization.bpe_words import clean_words
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.unigram_normalizer import ALBERT_STEPS, Step, UnigramNormalizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.byte_bpe import learn_byte_bpe
from bertsmith.vocabulary.cluster_counting import COUNTS_DIR
from bertsmith.vocabulary.counting import Cluster, WordSplitter, count_texts
from bertsmith.vocabulary.library_training import learn_unigram, learn_with_library
from bertsmith.vocabulary.origin import ORIGIN_NAME
from bertsmith.vocabulary.report import TokenizerReport
from bertsmith.vocabulary.settings import TokenizerSettings
from bertsmith.vocabulary.stats import tokenizer_stats
from bertsmith.vocabulary.wordpiece import LearnedVocabulary, learn_wordpiece

TOKENIZER_FILES = frozenset(
    {"vocab.txt", "vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", SUMS_FILE,
     ORIGIN_NAME, COUNTS_DIR}
)  # fmt: skip
"""Names in a tokenizer's folder, which may be overwritten."""


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
    check_outside(out, *settings.files)  # writing must not replace the texts
    # The folder is made and locked, and then checked, before minutes of work.
    with hold_folder(out, lambda: check_tokenizer_out(out, overwrite)):
        cluster = None if executor is None else Cluster(executor, out)
        trained = train_tokenizer(settings, texts, cluster=cluster)
        with atomic_dir(out) as folder:  # a temporary folder, which replaces `out` at the end
            trained[0].save(folder)
    return trained


def check_tokenizer_out(out: Path, overwrite: bool) -> None:
    """Refuse a folder unless it is empty or a tokenizer to overwrite.

    Raises:
        ConfigError: the folder holds other files, or a tokenizer without `overwrite`; or a disk is
            mounted there, or the current folder is in it.
    """
    check_is_replaceable(out)
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
    def timed(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        report.seconds[name] = round(time.perf_counter() - started, 2)

    with timed("counting words"):
        counts, held_out = count_texts(
            settings, texts or settings.files, word_splitter(settings), report, cluster=cluster
        )
    with timed("learning pieces"):
        tokenizer, learned = _learn(settings, counts)
    _note_small_vocabulary(settings, report, len(learned.tokens))
    with timed("measuring"):
        _measure(settings, report, learned, tokenizer, counts, held_out)
    return tokenizer, learned, report


def word_splitter(settings: TokenizerSettings) -> WordSplitter:
    """Return the function that splits text into words as the trained tokenizer does."""
    if settings.kind == "byte-bpe":
        return clean_words
    if settings.kind == "unigram":
        return UnigramNormalizer(unigram_steps(settings), b"").words  # b"": no charsmap
    return Normalizer(lowercase=settings.lowercase, strip_accents=settings.strip_accents).words


def unigram_steps(settings: TokenizerSettings) -> tuple[Step, ...]:
    """Return the steps by which a unigram tokenizer normalizes text.

    They are ALBERT's steps without two kinds: steps that the settings switch off, and `charsmap`,
    which needs a table of replaced characters from a SentencePiece file.
    """
    strips_accents = settings.strip_accents
    if strips_accents is None:
        strips_accents = settings.lowercase
    left_out = {"charsmap"}
    if not settings.lowercase:
        left_out.add("lowercase")
    if not strips_accents:
        left_out |= {"decompose", "strip_accents"}
    return tuple(step for step in ALBERT_STEPS if step not in left_out)


def _learn(
    settings: TokenizerSettings, counts: Counter[str]
) -> tuple[Tokenizer, LearnedVocabulary]:
    """Learn the vocabulary of the kind that the settings name, and build its tokenizer."""
    size = settings.vocab_size
    max_length = settings.model_max_length
    coverage = settings.character_coverage
    if settings.kind == "byte-bpe":
        learned = learn_byte_bpe(counts, size, min_frequency=settings.min_frequency)
        byte_bpe = ByteBpeTokenizer(learned.tokens, learned.merges, model_max_length=max_length)
        return byte_bpe, learned
    if settings.kind == "unigram":
        learned = learn_unigram(counts, size, character_coverage=coverage)
        unigram = UnigramTokenizer(
            learned.tokens,
            learned.scores,
            steps=unigram_steps(settings),
            model_max_length=max_length,
        )
        return unigram, learned
    learned = learn_wordpiece(
        counts,
        size,
        rule=settings.rule,
        min_frequency=settings.min_frequency,
        character_coverage=coverage,
        surplus=settings.surplus,
    )
    wordpiece = WordPieceTokenizer(
        learned.tokens,
        lowercase=settings.lowercase,
        strip_accents=settings.strip_accents,
        model_max_length=max_length,
    )
    return wordpiece, learned


def _note_small_vocabulary(
    settings: TokenizerSettings, report: TokenizerReport, num_tokens: int
) -> None:
    """Note in the report if fewer tokens were learned than the settings ask for, and why."""
    if num_tokens >= settings.vocab_size:
        return
    reason = f"no other pair of tokens occurs {settings.min_frequency} times"
    if settings.kind == "wordpiece":
        reason += " and has a score above zero"
    if settings.kind == "unigram":
        reason = "no other string occurs often enough"
    report.notes.append(
        f"The vocabulary has {num_tokens:,} tokens, not {settings.vocab_size:,}: "
        f"{reason}. More text gives more."
    )


def _measure(
    settings: TokenizerSettings,
    report: TokenizerReport,
    learned: LearnedVocabulary,
    tokenizer: Tokenizer,
    counts: Counter[str],
    held_out: Counter[str],
) -> None:
    """Measure the tokenizer on held-out words, into the report.

    A WordPiece vocabulary that the tokenizers library learns is measured, too, to compare with.
    """
    if not held_out:
        report.notes.append(
            f"Nothing was held out, so nothing was measured. Name a text with {option('held_out')}."
        )
        return
    name = "bertsmith" if settings.kind == "wordpiece" else settings.kind
    report.stats[name] = tokenizer_stats(tokenizer, held_out)
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
    # Its rule for case does not matter: `held_out` has words that are normalized already.
    report.stats["tokenizers library"] = tokenizer_stats(WordPieceTokenizer(tokens), held_out)
