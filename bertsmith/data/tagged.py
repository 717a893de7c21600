"""What a reader of labelled words gives: a sentence, its labels, and where its words stand."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from bertsmith.data.label_schemes import Scheme
from bertsmith.text.words import Place, WordRule, join_words

Remark = Literal[
    "comments",
    "multiword_tokens",
    "empty_nodes",
    "misaligned_entities",
    "unlocated_texts",
    "repaired",
    "repaired_predictions",
]
REMARKS: dict[Remark, str] = {
    "comments": "{:,} lines that begin with # were taken for comments",
    "multiword_tokens": "{:,} multi-word tokens were read as the words they consist of",
    "empty_nodes": "{:,} empty nodes, which stand nowhere in the text, were left out",
    "misaligned_entities": "{:,} entities ended within a word, and were taken to its end",
    "unlocated_texts": "{:,} texts do not hold all of their words, and were left for the words "
    "joined; so places are those of the joined words",
    "repaired": "{:,} sentences of the data had labels that break their scheme, and were repaired",
    "repaired_predictions": "{:,} sentences had predicted labels that break the scheme, and were "
    "repaired",
}
"""What is said of so many of each."""

TagFormat = Literal["auto", "conll", "conllu", "jsonl", "text"]


@dataclass(frozen=True)
class TaggedSentence:
    """Words and, where the file has them, a label for each; `row` is its line, from 1.

    `scheme` is that of the labels. `given` is the text that the words were found in and their
    places there; None where the file has words alone. `remarks` has a name for each thing that was
    not taken as it stands.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...] = ()
    row: int = 0
    given: tuple[str, tuple[Place, ...]] | None = None
    scheme: Scheme = "plain"
    remarks: tuple[Remark, ...] = ()

    @property
    def content(self) -> tuple[str, ...]:
        """What the model reads of it."""
        return self.words

    @property
    def num_chars(self) -> int:
        """How long its words are together."""
        return sum(map(len, self.words))

    @cached_property
    def _located(self) -> tuple[str, tuple[Place, ...]]:
        if self.given is not None:
            return self.given
        text, places = join_words(self.words)
        return text, tuple(places)

    @property
    def text(self) -> str:
        """The text as it was given; of words that came alone, the words joined."""
        return self._located[0]

    @property
    def places(self) -> tuple[Place, ...]:
        """First character of each word in `text`, and one past its last."""
        return self._located[1]


@dataclass(frozen=True)
class TagColumns:
    """Where words and labels stand in a file, and how sentences that lack something are treated."""

    format: TagFormat = "auto"
    """conll (a word a line, columns between tabs or spaces, an empty line after each sentence),
    conllu, jsonl ({"words": [...], "labels": [...]} or {"text": ..., "entities": [...]}), text (one
    text per line, to predict). auto: by the file's name and its first lines."""
    word_column: str | None = None
    """Column with the word: its number counted from 1, in conllu also its name, in jsonl the key.
    The first column where not given."""
    label_column: str | None = None
    """Column with the label, in the same way. The last column where not given; upos in conllu."""
    split: WordRule | None = None
    """How running text is cut into words: words (punctuation and Chinese characters alone), spaces
    (it is cut already, at white space), characters. As in training where not given, words there."""
    scheme: Scheme | None = None
    """What the labels are; found by looking at them where not given. plain: each stands for one
    word, as parts of speech do."""
    repair: bool = False
    """Make label sequences that break their scheme legal, in files and in predictions: whatever
    does not continue an entity begins one. They are counted in any case."""
    strict: bool = False
    """Count only entities whose labels follow the scheme, as seqeval's strict mode does; where not
    given, whatever does not continue an entity begins one, as conlleval has it."""
    skip_incomplete: bool = False
    """Leave out sentences with a row that cannot be read, and count them, instead of stopping."""
