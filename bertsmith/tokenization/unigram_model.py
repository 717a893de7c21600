"""Unigram language model of tokens, by which a word is cut into its likeliest tokens."""

import math
from collections.abc import Sequence

from bertsmith.tokenization.tokenizer import PieceAt

UNKNOWN_PENALTY = 10.0
"""Log-probability gap between the least likely token and an unknown character."""


class Unigram:
    """Unigram model, which cuts words into their likeliest tokens (Kudo 2018, section 3.2).

    Args:
        pieces: the tokens, by id.
        scores: the log probability of each, in nats.
        unk_id: the id given to a run of characters without a token.
    """

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], unk_id: int) -> None:
        self._ids_and_scores = {
            piece: (id_, score)
            for id_, (piece, score) in enumerate(zip(pieces, scores, strict=True))
        }
        self._prefixes = {piece[:end] for piece in pieces for end in range(1, len(piece) + 1)}
        self._unk_id = unk_id
        self._unknown_score = min(scores, default=0.0) - UNKNOWN_PENALTY

    def cut(self, word: str) -> list[PieceAt]:
        """Cut a word into tokens; neighbouring unknown characters become one token."""
        best = self._best_ends(word)
        pieces: list[PieceAt] = []
        end = len(word)
        while end:  # from the end of the word to its start
            _, start, id_ = best[end]
            if id_ == self._unk_id and pieces and pieces[-1].id == id_:
                pieces[-1] = PieceAt(id_, word[start : pieces[-1].end], start, pieces[-1].end)
            else:
                pieces.append(PieceAt(id_, word[start:end], start, end))
            end = start
        return pieces[::-1]

    def _best_ends(self, word: str) -> list[tuple[float, int, int]]:
        """Find the likeliest cut of the first 0, 1, 2 … characters of a word (Viterbi's algorithm).

        Each entry has the sum of the scores of the cut's tokens, and start and id of the last one.
        """
        size = len(word)
        ids_and_scores = self._ids_and_scores
        prefixes = self._prefixes
        best = [(-math.inf, 0, 0)] * (size + 1)
        best[0] = (0.0, 0, 0)
        for start in range(size):
            sum_before = best[start][0]
            for end in range(start + 1, size + 1):
                piece = word[start:end]
                if piece not in prefixes:
                    break
                if id_and_score := ids_and_scores.get(piece):
                    id_, score = id_and_score
                    if score + sum_before > best[end][0]:
                        best[end] = (score + sum_before, start, id_)
            if word[start] not in ids_and_scores:  # no token: the character may be unknown
                score = self._unknown_score + sum_before
                if score > best[start + 1][0]:
                    best[start + 1] = (score, start, self._unk_id)
        return best
