"""Learning a language from plain text: a corpus goes in, batches and loss terms come out.

The two objectives of the paper (Devlin et al. 2019, section 3.1), their losses added: masked LM,
and next sentence prediction, which can be left out. A batch is a function of (corpus, seed,
step): every step draws its pairs and masks with a generator of its own, so no shuffled copy of
the corpus exists and a run can be continued anywhere.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from bertsmith.data.batches import Batch, pack
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.data.masking import MaskingRule, MaskingVocabulary, mask_tokens
from bertsmith.data.pairs import (
    Anchors,
    Pairs,
    draw_pairs,
    draw_targets,
    draw_windows,
    single_sentence_share,
)
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError, CorpusError
from bertsmith.files import sha256_file
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.tasks.objective import LossTerm

TRAIN_STREAM = 0
HELD_OUT_STREAM = 1
HELD_OUT_MASKING_RATE = 0.15
"""BERT's own: figures of runs that hide other shares of their texts can be compared."""
EVALUATION_TOKENS = 8192
UNIGRAM_TOKENS = 20_000_000
COUNTED_DOCUMENTS = 1000

IdArray = NDArray[np.int64]


@dataclass(frozen=True)
class PretrainingSettings:
    """What is to be predicted, and in rows of what length."""

    max_length: int = 128
    """Tokens in a row at most, special ones included. Shorter rows train faster."""
    start_steps: int = 0
    """How many steps to begin with rows of --start-length, more of them in a step. A model that
    sees only near neighbours leaves the plateau of mere word frequencies sooner."""
    start_length: int = 32
    """Tokens in a row during those first steps."""
    masking_rate: float = 0.15
    """The share of each row's tokens that the model must predict. Held-out rows always have 15 %
    hidden, so that runs can be compared."""
    mask_share: float = 0.8
    """Of these, the share hidden behind [MASK]."""
    random_share: float = 0.1
    """Of these, the share replaced by a random token."""
    keep_share: float = 0.1
    """Of these, the share left as they are. The three shares add up to 1."""
    next_sentence: bool = True
    """Learn, beside hidden words, whether the second segment of a row follows the first in the
    text; --no-next-sentence leaves that out."""
    short_seq_prob: float = 0.1
    """The share of rows that aim for a random shorter length, so that short texts are known."""

    def __post_init__(self) -> None:
        """Refuse values that leave nothing to predict or nothing to predict from."""
        _check("max_length", self.max_length, self.max_length >= 8, "8 or more")
        _check("start_steps", self.start_steps, self.start_steps >= 0, "0 or more")
        if self.start_steps:
            fits = 8 <= self.start_length <= self.max_length
            _check("start_length", self.start_length, fits, "8 to max_length")
        _check("masking_rate", self.masking_rate, 0 < self.masking_rate < 1, "between 0 and 1")
        for name in ("mask_share", "random_share", "keep_share", "short_seq_prob"):
            value = getattr(self, name)
            _check(name, value, 0 <= value <= 1, "0 to 1")
        total = self.mask_share + self.random_share + self.keep_share
        _check("mask_share + random_share + keep_share", total, math.isclose(total, 1), "1")


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"pretraining.{name}: found {value}; allowed is {allowed}.")


@dataclass(frozen=True)
class _Rows:
    """Rows as they were drawn; `masked_labels` is IGNORE_INDEX where nothing is predicted."""

    ids: Sequence[IdArray]
    type_ids: Sequence[IdArray]
    masked_labels: Sequence[IdArray]
    next_sentence_labels: IdArray

    def collate(self, chosen: slice) -> Batch:
        """Some of the rows, packed, with what is to be predicted of them."""
        batch = pack(self.ids[chosen], self.type_ids[chosen])
        given = self.masked_labels[chosen]
        labels = np.concatenate([given[i] for i in batch.order])
        positions = np.flatnonzero(labels != IGNORE_INDEX)
        next_labels = self.next_sentence_labels[chosen][list(batch.order)]
        targets = {
            "masked_positions": torch.from_numpy(positions),
            "masked_labels": torch.from_numpy(labels[positions]),
            "next_sentence_labels": torch.from_numpy(next_labels),
        }
        return replace(batch, targets=targets)


class RowSource:
    """Rows of one split by their numbers: token ids with their segments, labels and masks.

    Args:
        corpus: the split to read.
        settings: lengths and rates; `next_sentence` false gives rows of a single segment.
        seed: decides the order of the anchors.
    """

    def __init__(self, corpus: Corpus, settings: PretrainingSettings, seed: int) -> None:
        tokenizer = corpus.tokenizer()
        self.corpus = corpus
        self.settings = settings
        self.anchors = Anchors(corpus.num_tokens, settings.max_length, seed)
        self._rule = MaskingRule(settings.masking_rate, settings.mask_share, settings.random_share)
        self._vocabulary = MaskingVocabulary(
            corpus.vocab_size, tokenizer.mask_id, tokenizer.special_ids
        )
        self._cls = np.array([tokenizer.cls_id])
        self._sep = np.array([tokenizer.sep_id])

    def draw(self, first_row: int, num_rows: int, rng: np.random.Generator) -> Pairs:
        """Where rows `first_row` to `first_row + num_rows` take their tokens from."""
        anchors = self.anchors.positions(first_row, num_rows)
        if not self.settings.next_sentence:
            return draw_windows(self.corpus, anchors, self.settings.max_length - 2)
        longest = self.settings.max_length - 3
        targets = draw_targets(num_rows, longest, self.settings.short_seq_prob, rng)
        return draw_pairs(self.corpus, anchors, targets, rng)

    def batches(self, pairs: Pairs, rng: np.random.Generator, rows_each: int) -> list[Batch]:
        """The rows in batches of `rows_each`; how they are divided changes no mask."""
        ids, type_ids = self._read(pairs)
        lengths = np.array([len(row) for row in ids])
        masked = mask_tokens(np.concatenate(ids), lengths, self._rule, self._vocabulary, rng)
        labels = np.full(len(masked.input_ids), IGNORE_INDEX)
        labels[masked.positions] = masked.labels
        ends = np.cumsum(lengths)[:-1]
        rows = _Rows(
            np.split(masked.input_ids, ends), type_ids, np.split(labels, ends), pairs.labels
        )
        return [
            rows.collate(slice(first, first + rows_each)) for first in range(0, len(ids), rows_each)
        ]

    def _read(self, pairs: Pairs) -> tuple[list[IdArray], list[IdArray]]:
        """Token ids and type ids of every row: [CLS] A [SEP] B [SEP], or [CLS] A [SEP]."""
        ids, type_ids = [], []
        for a_start, a_end, b_start, b_end in pairs.spans():
            parts = [self._cls, self.corpus.token_ids(a_start, a_end), self._sep]
            if b_end > b_start:
                parts += [self.corpus.token_ids(b_start, b_end), self._sep]
            row = np.concatenate(parts)
            types = np.zeros(len(row), dtype=np.int64)
            types[a_end - a_start + 2 :] = 1
            ids.append(row)
            type_ids.append(types)
        return ids, type_ids


@dataclass(frozen=True)
class _Phase:
    """Steps that share a row length; `rows_for_one` of its rows stand for one of full length."""

    rows: RowSource
    first_step: int
    rows_for_one: int


class Pretraining:
    """Masked LM and next sentence prediction over a corpus, as the training loop wants it.

    Args:
        train: the split to learn from.
        held_out: the split to measure on. Where it has a single document, next sentences cannot
            be measured and are left out of the figures; where it has none, nothing is measured.
        settings: what is predicted.
        batch_size: rows per step.
        micro_batch_size: rows per forward pass; all of a step's where not given.
        seed: decides rows, pairs and masks.
        eval_rows: held-out rows measured each time, always the same with the same masks.

    Raises:
        CorpusError: next sentences are asked for and the corpus has a single document.
    """

    def __init__(
        self,
        train: Corpus,
        held_out: Corpus,
        settings: PretrainingSettings,
        *,
        batch_size: int,
        micro_batch_size: int | None = None,
        seed: int = 0,
        eval_rows: int = 512,
    ) -> None:
        if settings.next_sentence and train.num_documents < 2:
            raise CorpusError(
                f"{train.directory}: has {train.num_documents} document to learn from, and next "
                "sentence prediction needs two or more to take random sentences from. Build the "
                "corpus from more documents (an empty line separates them), or pass "
                "--no-next-sentence."
            )
        self.settings = settings
        self.batch_size = batch_size
        self.micro_batch_size = micro_batch_size or batch_size
        self.seed = seed
        self.train = RowSource(train, settings, seed)
        self.start: RowSource | None = None
        if settings.start_steps:
            self.start = RowSource(train, replace(settings, max_length=settings.start_length), seed)
        self.held_out = _held_out_rows(held_out, settings, seed)
        self.eval_rows = eval_rows
        self._evaluation: list[Batch] | None = None

    def resized(self, batch_size: int, eval_rows: int) -> "Pretraining":
        """The same with other numbers of rows, in a step and to measure on: for a trial."""
        other = copy.copy(self)
        other.batch_size, other.eval_rows = batch_size, eval_rows
        other._evaluation = None
        return other

    def micro_batches(self, step: int) -> list[Batch]:
        """The batches of a step, counted from 1."""
        phase = self._phase(step)
        pairs, rng = self._draw(step)
        return phase.rows.batches(pairs, rng, self.micro_batch_size * phase.rows_for_one)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Masked tokens, and rows where next sentences are predicted."""
        counts = {"mlm": len(batch.targets["masked_labels"])}
        if self.settings.next_sentence:
            counts["nsp"] = batch.num_sequences
        return counts

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """`mlm` and, where next sentences are predicted, `nsp`."""
        return pretraining_losses(model, batch, next_sentence=self.settings.next_sentence)

    def evaluate(self, model: BertModel) -> dict[str, float]:
        """Losses and accuracies on the held-out rows; `held_out_loss` is the sum of the losses."""
        if self.held_out is None:
            return {}
        if self._evaluation is None:
            self._evaluation = self._evaluation_batches(self.held_out)
        device = model.embeddings.word.weight.device
        next_sentence = self.held_out.settings.next_sentence
        totals: dict[str, list[float]] = {}
        for batch in self._evaluation:
            terms = pretraining_losses(model, batch.to(device), next_sentence=next_sentence)
            for name, term in terms.items():
                figures = [term.sum.item(), term.correct.item(), term.count]
                before = totals.get(name, [0.0, 0.0, 0])
                totals[name] = [a + b for a, b in zip(before, figures, strict=True)]
        return _figures(totals)

    def describe(self, step: int) -> str:
        """Documents and sentences of every row of a step, as counted in the corpus from 0."""
        pairs, _ = self._draw(step)
        corpus = self.train.corpus
        rows = [
            " + ".join(_place(corpus, start, end) for start, end in segments if end > start)
            for a_start, a_end, b_start, b_end in pairs.spans()
            for segments in [((a_start, a_end), (b_start, b_end))]
        ]
        return f"{corpus.directory}: " + "; ".join(rows)

    def identity(self) -> dict[str, Any]:
        """Corpus, settings and seed."""
        corpus = self.train.corpus
        return {
            "task": "pretraining",
            "corpus_sha256": sha256_file(corpus.directory / "manifest.json"),
            "tokenizer": corpus.tokenizer_fingerprint,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "eval_rows": self.eval_rows,
            "pretraining": asdict(self.settings),
        }

    def facts(self) -> dict[str, float]:
        """What there is to learn from, and the loss that no model should stay above.

        `held_out_unigram_entropy` (nats) is the masked-LM loss of always predicting each word
        with its frequency in the training split. `single_sentence_share` of the tokens lie in
        documents without a next sentence, so their rows always continue with a random one.
        """
        facts: dict[str, float] = {
            "train_documents": self.train.corpus.num_documents,
            "train_tokens": self.train.corpus.num_tokens,
            "rows_per_epoch": self.train.anchors.num_anchors,
        }
        if self.settings.next_sentence:
            facts["single_sentence_share"] = single_sentence_share(self.train.corpus)
        if self.held_out is not None:
            facts["held_out_tokens"] = self.held_out.corpus.num_tokens
            facts["held_out_unigram_entropy"] = unigram_entropy(
                self.train.corpus, self.held_out.corpus
            )
        return facts

    def _draw(self, step: int) -> tuple[Pairs, np.random.Generator]:
        rng = np.random.default_rng([self.seed, TRAIN_STREAM, step])
        phase = self._phase(step)
        num_rows = self.batch_size * phase.rows_for_one
        return phase.rows.draw((step - phase.first_step) * num_rows, num_rows, rng), rng

    def _phase(self, step: int) -> _Phase:
        settings = self.settings
        if self.start is None or step > settings.start_steps:
            return _Phase(self.train, first_step=settings.start_steps + 1, rows_for_one=1)
        return _Phase(self.start, 1, settings.max_length // settings.start_length)

    def _evaluation_batches(self, rows: RowSource) -> list[Batch]:
        rng = np.random.default_rng([self.seed, HELD_OUT_STREAM])
        rows_each = max(1, EVALUATION_TOKENS // self.settings.max_length)
        return rows.batches(rows.draw(0, self.eval_rows, rng), rng, rows_each)


def unigram_entropy(train: Corpus, held_out: Corpus) -> float:
    """Mean surprise in nats of held-out tokens at their frequencies in the training split.

    Frequencies have one added to every count. Special tokens are left out, as masking does, and
    splits beyond 20 M tokens are read in part, by documents evenly spread.
    """
    ordinary = np.ones(train.vocab_size, dtype=bool)
    ordinary[list(train.tokenizer().special_ids)] = False
    learnt = _token_counts(train)[ordinary] + 1
    met = _token_counts(held_out)[ordinary]
    return float(-(met * np.log(learnt / learnt.sum())).sum() / max(1, met.sum()))


def _token_counts(corpus: Corpus) -> IdArray:
    """How often each id occurs, `[vocabulary]`."""
    bounds = corpus.sentence_starts[corpus.document_starts]
    every = max(1, corpus.num_tokens // UNIGRAM_TOKENS)
    counts = np.zeros(corpus.vocab_size, dtype=np.int64)
    documents = range(0, corpus.num_documents, every)
    for first in range(0, len(documents), COUNTED_DOCUMENTS):
        chosen = documents[first : first + COUNTED_DOCUMENTS]
        ids = [corpus.token_ids(int(bounds[i]), int(bounds[i + 1])) for i in chosen]
        counts += np.bincount(np.concatenate(ids), minlength=corpus.vocab_size)
    return counts


def _held_out_rows(corpus: Corpus, settings: PretrainingSettings, seed: int) -> RowSource | None:
    if corpus.num_documents == 0:
        return None
    paired = settings.next_sentence and corpus.num_documents > 1
    measured = replace(settings, next_sentence=paired, masking_rate=HELD_OUT_MASKING_RATE)
    return RowSource(corpus, measured, seed)


def pretraining_losses(
    model: BertModel, batch: Batch, *, next_sentence: bool
) -> dict[str, LossTerm]:
    """Vocabulary logits are computed at the masked positions only."""
    hidden = model.encode(batch)
    labels = batch.targets["masked_labels"]
    masked = hidden.index_select(0, batch.targets["masked_positions"])
    head = cast(MaskedLMHead, model.heads["masked_lm"])
    loss, correct = head.loss(masked, model.embeddings.word.weight, labels)
    terms = {"mlm": LossTerm(loss, correct, len(labels))}
    if next_sentence:
        labels = batch.targets["next_sentence_labels"]
        logits = model.heads["next_sentence"](model.pool(hidden, batch)).float()
        loss = F.cross_entropy(logits, labels, reduction="sum")
        correct = (logits.argmax(-1) == labels).sum()
        terms["nsp"] = LossTerm(loss, correct, batch.num_sequences)
    return terms


def _figures(totals: dict[str, list[float]]) -> dict[str, float]:
    figures = {"held_out_loss": sum(loss / count for loss, _, count in totals.values())}
    for name, (loss, correct, count) in totals.items():
        figures[f"held_out_{name}_loss"] = loss / count
        figures[f"held_out_{name}_accuracy"] = correct / count
    return figures


def _place(corpus: Corpus, start: int, end: int) -> str:
    """Where a token range lies, such as "document 12 sentences 3-5"."""
    first, last = np.searchsorted(corpus.sentence_starts, [start, end - 1], side="right") - 1
    document = int(np.searchsorted(corpus.document_starts, first, side="right") - 1)
    offset = corpus.document_starts[document]
    return f"document {document} sentences {first - offset}-{last - offset}"
