"""Extension of a tokenizer by tokens learned from texts of a domain.

Existing tokens keep their ids, so the tokenizer's model can be continued: only the new tokens need
new embeddings (`bertsmith pretrain --from`).
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.model.hub import find_tokenizer
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer, read_bytes
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.unigram_normalizer import SPACE
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.byte_bpe import extend_byte_bpe
from bertsmith.vocabulary.counting import count_texts
from bertsmith.vocabulary.report import TokenizerReport
from bertsmith.vocabulary.settings import ExtensionSettings
from bertsmith.vocabulary.stats import TokenizerStats, tokenizer_stats
from bertsmith.vocabulary.unigram_extension import extend_unigram
from bertsmith.vocabulary.wordpiece_extension import learn_extension


@dataclass
class ExtensionReport:
    """Report of extension: texts read, tokens added, statistics before and after."""

    reading: TokenizerReport = field(default_factory=TokenizerReport)
    num_old: int = 0
    added: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """The added tokens for people: those of byte-level BPE as text, with `▁` for spaces and escapes
    for line breaks and tabs."""
    stats: dict[str, tuple[TokenizerStats, TokenizerStats]] = field(default_factory=dict)
    """Statistics of the old and of the new tokenizer, on the texts `learned from` and `held out`,
    if there are any."""


def extend_tokenizer(
    settings: ExtensionSettings,
) -> tuple[Tokenizer, ExtensionReport]:
    """Learn new tokens from texts, whose order does not matter, and append them to the old ones.

    Raises:
        CheckpointError: there is no tokenizer, or one that cannot be extended.
        InputError: a file cannot be read, or the texts have no words.
        ConfigError: fewer new tokens are asked for than there are new characters, or a coverage of
            characters for byte-level BPE.
    """
    source = settings.from_
    old = load_tokenizer(find_tokenizer(source))
    check_extensible(old, source)
    coverage = settings.character_coverage
    if isinstance(old, ByteBpeTokenizer) and coverage != ExtensionSettings.character_coverage:
        raise ConfigError(
            f"{option('character_coverage', coverage)}: {source} is byte-level BPE, which has a "
            "token for every byte, so no character can be unknown. Leave it out."
        )
    report = ExtensionReport(num_old=old.vocab_size)
    counts, held_out = count_texts(settings, settings.texts, old.words, report.reading)
    tokenizer = add_learned_tokens(old, counts, settings)
    report.added = tuple(tokenizer.vocab[old.vocab_size :])
    report.shown = report.added
    if isinstance(tokenizer, ByteBpeTokenizer):
        report.shown = tuple(_readable(read_bytes([token])) for token in report.added)
    for name, words in (("learned from", counts), ("held out", held_out)):
        if words:
            report.stats[name] = tokenizer_stats(old, words), tokenizer_stats(tokenizer, words)
    return tokenizer, report


def add_learned_tokens(
    old: Tokenizer, counts: Counter[str], settings: ExtensionSettings
) -> Tokenizer:
    """Learn up to `settings.add` tokens from counts of words, by the method for this tokenizer."""
    min_frequency = settings.min_frequency
    if isinstance(old, ByteBpeTokenizer):
        return extend_byte_bpe(old, counts, settings.add, min_frequency=min_frequency)
    coverage = settings.character_coverage
    if isinstance(old, UnigramTokenizer):
        return extend_unigram(
            old, counts, settings.add, min_frequency=min_frequency, character_coverage=coverage
        )
    assert isinstance(old, WordPieceTokenizer)
    added = learn_extension(
        old.vocab,
        old.unk_id,
        counts,
        settings.add,
        max_chars=old.max_input_chars_per_word,
        min_frequency=min_frequency,
        character_coverage=coverage,
    )
    return WordPieceTokenizer([*old.vocab, *added], **old.settings())


def check_extensible(tokenizer: Tokenizer, path: Path) -> None:
    """Refuse a tokenizer with added tokens that would become ordinary ones.

    Added tokens, such as those of `add_tokens` in transformers, have ids behind the vocabulary. New
    tokens get ids behind these, so the added tokens become part of the vocabulary. That changes
    nothing as long as no word of a text can look like an added token. (Byte-level BPE makes tokens
    by merges, and no merge makes an added token. In a unigram model an added token is as unlikely
    as the least likely token.)

    Raises:
        CheckpointError: an added token of a WordPiece tokenizer is a word.
    """
    if not isinstance(tokenizer, WordPieceTokenizer):
        return
    for token in tokenizer.vocab[tokenizer.num_pieces :]:
        if list(tokenizer.words(token)) == [token]:
            raise CheckpointError(
                f"{path}: its added token {token!r} is a word, and would be cut from longer words "
                "if tokens were put behind it. Extend a tokenizer without added words."
            )


def _readable(text: str) -> str:
    r"""Return the text of a token in one line.

    >>> _readable(" tensor"), _readable("\n\t")
    ('▁tensor', '\\n\\t')
    """
    text = text.replace(" ", SPACE)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
