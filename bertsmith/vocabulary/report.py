"""Report on the training of a tokenizer."""

from dataclasses import dataclass, field

from bertsmith.data.reading import SourceReport
from bertsmith.vocabulary.stats import TokenizerStats


@dataclass
class TokenizerReport:
    """Report of training: texts read, words counted, and evaluation results."""

    learning: SourceReport = field(default_factory=SourceReport)
    """Counts of the texts to learn from, including the documents that are held out."""
    measuring: SourceReport = field(default_factory=SourceReport)
    """Counts of the separate held-out texts."""
    held_out_documents: int = 0
    num_words: int = 0
    num_distinct_words: int = 0
    stats: dict[str, TokenizerStats] = field(default_factory=dict)
    """Statistics on held-out text, of the tokenizer that was trained and of the library's to
    compare with, by name; empty without held-out text."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the user, such as that a figure is missing or that the vocabulary came out
    smaller than was asked for."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds that each step of the training took, by name of the step."""
