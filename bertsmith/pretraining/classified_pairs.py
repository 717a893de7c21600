"""Next sentence prediction and sentence order prediction: two segments, and one of two labels.

A row is one training sequence, [CLS] A [SEP] B [SEP]. It is built around an *anchor*, a token
position in the corpus.
"""

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.errors import option
from bertsmith.pretraining.pair_task import PairTask, TextLengths
from bertsmith.pretraining.segments import (
    SegmentPairs,
    Segments,
    draw_lengths,
    draw_ordered_pairs,
    draw_pairs,
)


class TwoSegments(PairTask):
    """The base class of tasks whose label says how the two segments of a row are related."""

    def draw(
        self,
        corpus: Corpus,
        anchors: np.ndarray,
        lengths: TextLengths,
        short_seq_prob: float,
        rng: np.random.Generator,
    ) -> Segments:
        """Draw a row of two segments for each anchor, a token offset; see `PairTask.draw`.

        A row is cut to a random length with the probability `short_seq_prob`.
        """
        max_lengths = draw_lengths(len(anchors), lengths.two_segments, short_seq_prob, rng)
        return self.draw_segments(corpus, anchors, max_lengths, rng).segments()

    @staticmethod
    def draw_segments(
        corpus: Corpus, anchors: np.ndarray, max_lengths: np.ndarray, rng: np.random.Generator
    ) -> SegmentPairs:
        """Draw segments A and B and their label for each anchor.

        Args:
            anchors: token offsets in the corpus, int64 `[rows]`.
            max_lengths: the most tokens of both segments together, int64 `[rows]`.
        """
        raise NotImplementedError


class NextSentence(TwoSegments):
    """Does segment B follow segment A in the text (Devlin et al. 2019, section 3.1, task 2)?"""

    draw_segments = staticmethod(draw_pairs)

    def has_pairs(self, corpus: Corpus) -> bool:
        """Return whether there is another document to take a random segment from."""
        return corpus.num_documents > 1

    def describe_missing_pairs(self, corpus: Corpus) -> str:
        return (
            f"{corpus.directory}: has {corpus.num_documents} document to learn from, and next "
            "sentence prediction needs two or more to take random sentences from. Build the "
            "corpus from more documents (an empty line separates them), or pass "
            f"{option('pairs', 'none')}."
        )


class SentenceOrder(TwoSegments):
    """Do the segments stand in the order of the text (Lan et al. 2020, section 3.1)?"""

    draw_segments = staticmethod(draw_ordered_pairs)
