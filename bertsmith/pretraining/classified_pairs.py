"""Next sentence prediction and sentence order prediction: two segments, and a label of two."""

import numpy as np

from bertsmith.data.shards import Corpus
from bertsmith.errors import option
from bertsmith.pretraining.pair_task import PairTask, TextLengths
from bertsmith.pretraining.segments import (
    Segments,
    draw_lengths,
    draw_ordered_pairs,
    draw_pairs,
)
from bertsmith.pretraining.settings import PairTaskName


class NextSentence(PairTask):
    """Does segment B follow segment A in the text (Devlin et al. 2019, section 3.1, task 2)?"""

    name: PairTaskName = "next_sentence"
    term = "nsp"
    chance = 0.5

    def has_pairs(self, corpus: Corpus) -> bool:
        return corpus.num_documents > 1

    def describe_missing_pairs(self, corpus: Corpus) -> str:
        return (
            f"{corpus.directory}: has {corpus.num_documents} document to learn from, and next "
            "sentence prediction needs two or more to take random sentences from. Build the "
            "corpus from more documents (an empty line separates them), or pass "
            f"{option('pairs', 'none')}."
        )

    def draw(
        self,
        corpus: Corpus,
        anchors: np.ndarray,
        lengths: TextLengths,
        short_seq_prob: float,
        rng: np.random.Generator,
    ) -> Segments:
        targets = draw_lengths(len(anchors), lengths.two_segments, short_seq_prob, rng)
        return draw_pairs(corpus, anchors, targets, rng).segments()


class SentenceOrder(PairTask):
    """Do the segments stand in the order of the text (Lan et al. 2020, section 3.1)?"""

    name: PairTaskName = "sentence_order"
    term = "sop"
    chance = 0.5

    def draw(
        self,
        corpus: Corpus,
        anchors: np.ndarray,
        lengths: TextLengths,
        short_seq_prob: float,
        rng: np.random.Generator,
    ) -> Segments:
        targets = draw_lengths(len(anchors), lengths.two_segments, short_seq_prob, rng)
        return draw_ordered_pairs(corpus, anchors, targets, rng).segments()
