"""Settings for learning a tokenizer from texts, and for adding tokens to one.

They are the flags of `tokenizer train` and `tokenizer extend`. A field's docstring is its help
text; only --help-all shows the fields that are `Advanced`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.data.reading import Errors
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced
from bertsmith.tokenization.tokenizer_class import Kind

RuleName = Literal["likelihood", "frequency"]


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """Settings for reading texts and learning tokens from them."""

    min_frequency: int = 2
    """Minimum frequency of a pair that is merged; rarer pairs do not become a token."""
    character_coverage: Advanced[float] = 0.9999
    """Character coverage: the share of all characters that must have a token. A word with one of
    the rarest characters beyond that share becomes [UNK], the unknown token."""
    held_out: tuple[str, ...] = ()
    """Held-out texts, on which the tokenizer is evaluated; not learned from, even if named among
    the texts too. Without them a share of the documents is held out."""
    held_out_share: Advanced[float] = 0.02
    """Share of the documents to hold out, chosen by a hash of their text."""
    text_column: str = "text"
    """Column that holds the text in .jsonl, .csv, .tsv and .parquet files."""
    errors: Advanced[Errors] = "strict"
    """Lines or rows that cannot be read: stop at the first (strict), or skip and count them
    (skip)."""
    processes: Advanced[int | None] = None
    """Number of processes that count words; by default one for each core that this process may use,
    at most 16."""

    def __post_init__(self) -> None:
        check_upper_limits(self)
        self._check("min_frequency", self.min_frequency >= 1, "1 or more")
        self._check("character_coverage", 0 < self.character_coverage <= 1, "above 0, up to 1")
        self._check("held_out_share", 0 <= self.held_out_share < 1, "0 or more, below 1")
        self._check("processes", self.processes is None or self.processes >= 1, "1 or more")
        if self.held_out and self.held_out_share != LearningSettings.held_out_share:
            raise ConfigError(
                f"{option('held_out_share')}: found {self.held_out_share} beside "
                f"{option('held_out')}, whose texts are held out in place of a share. Leave one of "
                "the two out."
            )

    def _check(self, name: str, holds: bool, allowed: str) -> None:
        """Refuse the value of a setting unless `holds`; `allowed` says what is allowed."""
        if not holds:
            raise SettingError(name, getattr(self, name), allowed)


UNUSED_OPTIONS: Mapping[Kind, tuple[str, ...]] = {
    "wordpiece": (),
    "byte-bpe": ("strip_accents", "character_coverage", "surplus"),
    "unigram": ("rule", "min_frequency", "surplus"),
}
"""Options that a kind of tokenizer has no use for. (Byte-level BPE always keeps the case and merges
by frequency, so both may be asked for.)"""


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(LearningSettings):
    """Settings for training a tokenizer."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILES")]
    """Text files to learn from: .txt (empty lines between documents), .jsonl, .csv, .tsv or
    .parquet, each also as .gz, .xz or .zst. Folders and patterns such as 'texts/*.txt' are
    searched."""
    kind: Kind = "wordpiece"
    """Kind of tokenizer: wordpiece for BERT, DistilBERT and ELECTRA; byte-bpe for RoBERTa, which
    keeps text as it stands, so the options on merge rule, case, accents and characters do not
    apply; unigram (SentencePiece) for ALBERT, trained by the tokenizers library, which must be
    installed."""
    vocab_size: int = 16_000
    """Vocabulary size, in tokens. BERT has 30000; half of that or less suits small texts."""
    rule: RuleName = "likelihood"
    """Merge rule: which two neighbouring tokens become one. 'frequency' takes the pair that occurs
    most often, which gives slightly fewer tokens per word; 'likelihood' the pair that raises the
    likelihood of the text most, which gives tokens that a model learns sooner."""
    # Help shows this flag as --no-lowercase, which the docstring describes.
    lowercase: bool = True
    """Keep upper and lower case, so that 'Paris' and 'paris' are different words; use it for tasks
    that look for names. Default: text is lower-cased."""
    strip_accents: Advanced[bool | None] = None
    """Accent stripping: whether 'café' and 'cafe' are the same word. By default they are, unless
    --no-lowercase is given."""
    surplus: Advanced[float] = 0.2
    """Surplus of tokens to learn, as a share of --vocab-size. As many are dropped again: those that
    encoding uses least, such as tokens that were only a step towards longer ones."""
    model_max_length: Advanced[int] = 512
    """Maximum input length, in tokens, of the models that will use this tokenizer."""
    # Help shows this flag as --no-compare, which the docstring describes.
    compare: bool = True
    """Do not compare with a vocabulary that the tokenizers library learns from the same texts. That
    saves time. Default: compare, if that library is installed."""

    def __post_init__(self) -> None:
        if not self.files:
            raise ConfigError("no FILES given. Name the texts to learn from.")
        super().__post_init__()
        self._check_unused()
        self._check("surplus", 0 <= self.surplus <= 10, "0 to 10")
        self._check("model_max_length", self.model_max_length >= 3, "3 or more")

    def _check_unused(self) -> None:
        """Check that options which the kind has no use for are left at their defaults.

        Raises:
            ConfigError: some are set; the message names them.
        """
        changed = [
            each.name
            for each in fields(self)
            # 0 and False are allowed: a surplus of 0, or accents that stay, is what the kind does.
            if each.name in UNUSED_OPTIONS[self.kind]
            and getattr(self, each.name) not in (each.default, False)
        ]
        if changed:
            raise ConfigError(
                f"{option('kind', self.kind)} has no use for {', '.join(map(option, changed))}. "
                f"Leave {'it' if len(changed) == 1 else 'them'} out, or choose another "
                f"{option('kind')}."
            )


@dataclass(frozen=True, kw_only=True)
class ExtensionSettings(LearningSettings):
    """Settings for extending a tokenizer."""

    from_: Annotated[Path, tyro.conf.arg(name="from")]
    """Model or tokenizer folder whose vocabulary is extended, or a vocab.txt."""
    texts: tuple[str, ...]
    """Texts of the domain: .txt (empty lines between documents), .jsonl, .csv, .tsv or .parquet,
    each also as .gz, .xz or .zst. Folders and patterns such as 'texts/*.txt' are searched."""
    add: int = 2000
    """Number of tokens to add."""

    def __post_init__(self) -> None:
        if not self.texts:
            raise ConfigError(f"{option('texts')}: found none. Name the texts to learn from.")
        if self.add < 1:
            raise SettingError("add", self.add, "1 or more")
        super().__post_init__()
