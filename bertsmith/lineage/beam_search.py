"""Beam search: at each step the few likeliest sequences are continued, and the best one wins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from bertsmith.errors import CheckpointError, SettingError
from bertsmith.system.bounds import check_largest


class TokenReader(Protocol):
    """A model that reads sequences token by token, and keeps what it has computed of them."""

    def read(self, new_ids: Sequence[Sequence[int]]) -> Tensor:
        """Read at least one new token of each sequence.

        Returns:
            The logits of each sequence's next token, fp32 [sequences, vocabulary].
        """
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these sequences, in this order; one may be repeated."""
        ...


def read_logits(reader: TokenReader, new_ids: Sequence[Sequence[int]]) -> Tensor:
    """Return the logits that `reader.read` computes, after a check that they are numbers.

    Raises:
        CheckpointError: one is NaN or infinite; -inf, for a token that is never written, may occur.
    """
    logits = reader.read(new_ids)
    if not logits.amax(-1).isfinite().all():
        raise CheckpointError(
            "The model's output is not a number (NaN or infinite), so it cannot choose a token. "
            "Its weights may be damaged. Copy or download the folder again."
        )
    return logits


@dataclass(frozen=True)
class BeamSearch:
    """Settings of the search, whose results are those of transformers' `generate`.

    Raises:
        SettingError: a value is out of range.
    """

    beams: int = 4
    """Number of sequences of each prompt that are continued at each step."""
    length_penalty: float = 1.0
    """A sequence's log-probability is divided by its length to this power. Above 0, longer
    sequences win more often."""

    def __post_init__(self) -> None:
        check_largest("beams", self.beams)
        if self.beams < 1:
            raise SettingError("beams", self.beams, "1 or more")
        if not -10 <= self.length_penalty <= 10:
            raise SettingError("length_penalty", self.length_penalty, "-10 to 10")


@dataclass
class _Search:
    """The search for one prompt: open sequences with their log-probabilities, and ended ones."""

    settings: BeamSearch
    sequences: list[list[int]] = field(default_factory=lambda: [[]])
    log_probs: list[float] = field(default_factory=lambda: [0.0])
    ended: list[tuple[float, list[int]]] = field(default_factory=list)
    """Scores and ids, the best first; at most as many as beams."""

    def extend(
        self, candidates: Sequence[tuple[float, int, int]], end: int | None, *, is_last: bool
    ) -> list[int]:
        """Replace the open sequences by their best continuations, and note those that end.

        Args:
            candidates: log-probability, index in `sequences` and token, the likeliest first; at
                most twice as many as beams. Candidates after the first `beams` are used only in
                place of earlier ones that end their sequence.
            end: the token that ends a sequence; None if there is none.
            is_last: whether all sequences end here.

        Returns:
            For each sequence that is now open, the index of the earlier one that it continues.
        """
        num_beams = self.settings.beams
        parents: list[int] = []
        sequences: list[list[int]] = []
        log_probs: list[float] = []
        for rank, (log_prob, parent, token) in enumerate(candidates):
            sequence = [*self.sequences[parent], token]
            if token == end or is_last:
                if rank < num_beams:
                    self.ended.append((self._score(log_prob, len(sequence)), sequence))
            elif len(parents) < num_beams:
                parents.append(parent)
                sequences.append(sequence)
                log_probs.append(log_prob)
        self.ended.sort(key=lambda score_and_ids: -score_and_ids[0])
        del self.ended[num_beams:]
        self.sequences, self.log_probs = sequences, log_probs
        return parents

    def _score(self, log_prob: float, length: int) -> float:
        return float(log_prob / length**self.settings.length_penalty)

    @property
    def is_done(self) -> bool:
        """Whether as many sequences have ended as there are beams, and no open one scores better.

        An open sequence is scored at its present length. With a positive length penalty it could
        still become better, but it is not continued, as in transformers with
        `early_stopping=False`.
        """
        if not self.sequences:
            return True
        if len(self.ended) < self.settings.beams:
            return False
        return self._score(self.log_probs[0], len(self.sequences[0])) <= self.ended[-1][0]


def search_beams(
    reader: TokenReader,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    end: int | None,
    settings: BeamSearch,
) -> list[list[int]]:
    """Search for a likely continuation of each prompt.

    A step keeps the `beams` likeliest continuations of all open sequences of a prompt. The score of
    an ended sequence is its log-probability divided by a power of its length.

    Args:
        reader: the model, which reads token by token. It has read nothing yet.
        prompts: ids of each prompt, at least one.
        max_new_tokens: maximum number of tokens of a continuation, at least 1.
        end: the token that ends a continuation; None if there is none.

    Returns:
        The ids of each prompt's best continuation, with `end` if it was reached.

    Raises:
        CheckpointError: the model's output is not a number.
    """
    searches = [_Search(settings) for _ in prompts]
    open_searches = list(searches)
    new_ids: list[list[int]] = [list(prompt) for prompt in prompts]
    for step in range(max_new_tokens):
        log_probs = read_logits(reader, new_ids).log_softmax(-1)
        # The rows of `log_probs` are the open sequences of one search after another.
        sizes = [len(search.sequences) for search in open_searches]
        continued_rows: list[int] = []
        still_open = []
        first = 0
        for search, size in zip(open_searches, sizes, strict=True):
            rows = log_probs[first : first + size]
            # Up to `beams` of the candidates may end, and as many others continue.
            candidates = _find_likeliest(rows, search.log_probs, 2 * settings.beams)
            parents = search.extend(candidates, end, is_last=step + 1 == max_new_tokens)
            if not search.is_done:
                still_open.append(search)
                continued_rows += [first + parent for parent in parents]
            first += size
        if not still_open:
            break
        # The reader keeps what it computed only of the sequences that go on, each once or more.
        if continued_rows != list(range(first)):
            reader.keep(continued_rows)
        open_searches = still_open
        new_ids = [sequence[-1:] for search in open_searches for sequence in search.sequences]
    return [search.ended[0][1] for search in searches]


def _find_likeliest(
    next_log_probs: Tensor, log_probs: Sequence[float], number: int
) -> list[tuple[float, int, int]]:
    """Find the likeliest continuations of the sequences of one prompt.

    Args:
        next_log_probs: log-probabilities of each sequence's next token, fp32 [sequences,
            vocabulary].
        log_probs: the log-probability of each sequence so far.

    Returns:
        Log-probability, index of the sequence and token, the likeliest first.
    """
    totals = (next_log_probs + next_log_probs.new_tensor(log_probs)[:, None]).flatten()
    values, indices = totals.topk(min(number, len(totals)))
    vocab_size = next_log_probs.shape[1]
    likeliest = []
    for value, index in zip(values.tolist(), indices.tolist(), strict=True):
        sequence, token = divmod(index, vocab_size)
        likeliest.append((value, sequence, token))
    return likeliest
