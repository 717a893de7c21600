"""Report on the training of a tokenizer."""

from dataclasses import dataclass, field

from bertsmith.data.reading import SourceReport
from bertsmith.vocabulary.stats import TokenizerStats


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
