"""The pre-training objective: batches and loss terms from a corpus.

The losses of masked LM and next sentence prediction (Devlin et al. 2019, section 3.1) are added.
Next sentence prediction can be replaced by sentence order prediction (Lan et al. 2020, section
3.1), contrastive pairs or nothing; these tasks are called *pair tasks*. A row is one training
sequence, and a function of (corpus, seed, step, number in the step). So there is no shuffled copy
of the corpus, a run can be resumed at any step, and rows do not depend on how a step is divided.
Masks are new at each step, or static (Liu et al. 2019, section 4.1): those of the first
`duplicates` epochs are then repeated.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.errors import CorpusError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.pretraining_catalog import PairTaskName
from bertsmith.pretraining.pair_task import load_pair_task
from bertsmith.pretraining.row_source import RowSource, StepRows
from bertsmith.pretraining.segments import single_sentence_share
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.token_counts import count_sampled_tokens, unigram_entropy
from bertsmith.pretraining.word_bounds import chinese_pieces
from bertsmith.system.files import sha256_file
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import LossTerm, Objective

TRAIN_STREAM = 0
STATIC_STREAM = 2
"""Numbers in the seeds of random generators: the first for rows with new masks, the second for rows
with static masks. Eval rows have another number there (`row_source.py`), so that none of the three
repeats the draws of another."""

COMPARED_ROWS = "compared_rows"
"""Name in a run's identity of the number of rows that a contrastive loss compares."""


class Pretraining(Objective[BertModel, Batch]):
    """The objective of masked LM and pair prediction over a corpus.

    Args:
        train: the split of the corpus to train on.
        held_out: the split to evaluate on. If it has a single document, next sentence prediction is
            left out of the metrics. If no document has two sentences, another pair task is left
            out. If there is no document, nothing is measured.
        settings: the tasks, masking and row lengths.
        batch_size: rows per step.
        micro_batch_size: rows per forward pass; by default all of a step.
        seed: determines rows, pairs and masks.
        eval_rows: number of eval rows; all evaluations have the same rows with the same masks.

    Raises:
        CorpusError: the training split has too few documents for next sentence prediction, or no
            document of two sentences for another task on pairs.
        ConfigError: the named word list or segmenter cannot be used.
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
        task = load_pair_task(settings.pair_task)
        if task is not None and not task.has_pairs(train):
            raise CorpusError(task.describe_missing_pairs(train))
        self.settings = settings
        self.batch_size = batch_size
        self.micro_batch_size = micro_batch_size or batch_size
        self.seed = seed
        self.train = RowSource(train, settings, seed)
        self.short_rows = self.train
        """Rows of the first `start_steps` steps, which may be shorter."""
        self.start_steps = settings.start_steps or 0
        if self.start_steps:
            self.short_rows = RowSource(train, settings.at_start(), seed)
        self.held_out: RowSource | None = None
        if held_out.num_documents:
            has_pairs = task is not None and task.has_pairs(held_out)
            pairs = settings.pair_task if has_pairs else "none"
            self.held_out = RowSource(held_out, settings.of_held_out(pairs), seed)
        self.eval_rows = eval_rows
        self._eval_batches: list[Batch] | None = None
        self._latest_rows: tuple[int, StepRows | None] = (0, None)
        """The number of the last step whose rows were asked for, and the rows."""

    def resized(self, batch_size: int, eval_rows: int) -> "Pretraining":
        """Return a copy with other numbers of rows, for trials; it reads the same open corpus."""
        other = copy.copy(self)
        other.batch_size = batch_size
        other.eval_rows = eval_rows
        other._eval_batches = None
        other._latest_rows = (0, None)
        return other

    def num_micro_batches(self, step: int) -> int:
        return len(self._divide(step))

    def micro_batch(self, step: int, index: int) -> Batch:
        """Draw and pack the rows of micro-batch `index`, from 0, of `step`, from 1; on the CPU."""
        return self._rows_of(step).batch(self._divide(step)[index])

    def _divide(self, step: int) -> list[range]:
        """Divide the rows of a step into micro-batches, each a range of row numbers."""
        rows = self._rows_of(step)
        return rows.source.divide(
            rows.num_rows, self.micro_batch_size * self._rows_per_full_row(rows.source)
        )

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count masked tokens, and rows with a pair label."""
        counts = {"mlm": len(batch.targets["masked_labels"])}
        task = self.train.pair_task
        if task is not None:
            counts[task.term] = task.count(batch)
        return counts

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Compute the loss term `mlm` and that of the pair task; see `pretraining_losses`."""
        return pretraining_losses(model, batch, self.settings.pair_task)

    def new_model(self, config: BertConfig) -> BertModel:
        """Build a model with random weights and the heads of these tasks."""
        return BertModel(config, build_heads(config, self.settings.heads))

    @property
    def evaluation(self) -> "Pretraining":
        return self

    def evaluate_part(self, model: BertModel, part: int, num_parts: int) -> list[Any]:
        """Compute the loss terms of every `num_parts`-th eval batch, from batch `part` on."""
        losses = [
            self._held_out_losses(model, batch)
            for batch in self.held_out_batches(model, part, num_parts)
        ]
        return [terms_on_cpu(terms) for terms in losses]

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute losses (nats) and accuracies on the eval rows, by journal name.

        `held_out_loss` is the weighted sum of the losses.
        """
        return {} if self.held_out is None else held_out_figures(interleave(results))

    def evaluate_on(self, model: BertModel, held_out: Iterable[Batch]) -> dict[str, float]:
        """Compute eval metrics on given batches, such as corrupted ones."""
        if self.held_out is None:
            return {}
        return held_out_figures(self._held_out_losses(model, batch) for batch in held_out)

    def _held_out_losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Compute the loss terms of an eval batch."""
        assert self.held_out is not None
        return pretraining_losses(model, batch, self.held_out.settings.pair_task)

    def held_out_batches(
        self, model: BertModel, part: int = 0, num_parts: int = 1
    ) -> Iterator[Batch]:
        """Yield the eval batches, always the same, on the model's device.

        If there are several parts, every `num_parts`-th batch is yielded, from batch `part` on.
        """
        if self.held_out is not None and self._eval_batches is None:
            self._eval_batches = self.held_out.evaluation_batches(self.eval_rows, self.seed)
        device = model.device
        for batch in (self._eval_batches or [])[part::num_parts]:
            yield batch.to(device)

    def describe(self, step: int) -> str:
        """Name documents and sentences of a step's rows, counted from 0."""
        corpus = self.train.corpus
        rows = [
            " + ".join(describe_span(corpus, start, end) for start, end in ranges)
            for segments in self.step_rows(step).segments()
            for ranges in segments.of_rows()
        ]
        return f"{corpus.directory}: " + "; ".join(rows)

    def describe_change(self, step: int) -> str:
        """Say that rows have their full length from this step on; "" at other steps."""
        if not self.start_steps or step != self.start_steps + 1:
            return ""
        return (
            f"rows now have {self.settings.max_length} tokens instead of "
            f"{self.short_rows.settings.max_length}, so the training loss may jump here"
        )

    def identity(self) -> dict[str, Any]:
        """Return facts about the inputs that the settings of the run do not determine.

        They are the text, the tokenizer, the word list, and the number of rows that a contrastive
        loss compares.
        """
        corpus = self.train.corpus
        words = self.settings.word_list
        task = self.train.pair_task
        compares_rows = task is not None and task.compares_rows
        return {
            "objective": "pretraining",
            COMPARED_ROWS: self.micro_batch_size if compares_rows else None,
            "corpus_sha256": sha256_file(corpus.directory / "manifest.json"),
            "tokenizer": corpus.tokenizer_fingerprint,
            "word_list_sha256": None if words is None else sha256_file(words),
        }

    def facts(self) -> dict[str, float]:
        """Compute statistics of the corpus, and a baseline for the loss.

        `held_out_unigram_entropy` (nats) is the masked-LM loss of predicting each token by its
        frequency in the training split; a useful model is below it. `single_sentence_share` is the
        share of tokens in documents of one sentence: their rows always continue with a random
        sentence and have no sentence order. `single_character_share` is the share of tokens that
        are Chinese characters. It is returned if masking chooses words, and there is neither a word
        list nor a segmenter: each of these characters then counts as a word.
        """
        facts: dict[str, float] = {
            "train_documents": self.train.corpus.num_documents,
            "train_tokens": self.train.corpus.num_tokens,
            "rows_per_epoch": self.train.rows_per_epoch,
        }
        if self.settings.pair_task != "none":
            facts["single_sentence_share"] = single_sentence_share(self.train.corpus)
        if self.settings.masking != "piece" and self.settings.load_segmenter() is None:
            counts = count_sampled_tokens(self.train.corpus)
            # `chinese_pieces` has the character of each token of the vocabulary, or "".
            is_chinese = chinese_pieces(self.train.corpus.tokenizer()) != ""
            facts["single_character_share"] = float(counts[is_chinese].sum() / counts.sum())
        if self.held_out is not None:
            facts["held_out_tokens"] = self.held_out.corpus.num_tokens
            facts["held_out_unigram_entropy"] = unigram_entropy(
                self.train.corpus, self.held_out.corpus
            )
        return facts

    def _rows_of(self, step: int) -> StepRows:
        """Return the rows of a step, which are kept until another step is asked for."""
        # Read once, since another thread may ask for another step at the same time.
        latest_step, rows = self._latest_rows
        if latest_step != step or rows is None:
            rows = self.step_rows(step)
            self._latest_rows = (step, rows)
        return rows

    def step_rows(self, step: int) -> StepRows:
        """Return the rows of a step; none of them is drawn yet."""
        # Row numbers begin at 0 for the steps with short rows, and again for those after them.
        has_short_rows = step <= self.start_steps
        source = self.short_rows if has_short_rows else self.train
        num_rows = self.batch_size * self._rows_per_full_row(source)
        first_step = 1 if has_short_rows else self.start_steps + 1
        first_row = (step - first_step) * num_rows
        key = [TRAIN_STREAM, step]
        if self.settings.duplicates:
            # The rows of `duplicates` epochs are a cycle, which is divided into steps; the last
            # step of a cycle may have fewer rows. The next cycle has the same rows and masks.
            all_rows = self.settings.duplicates * source.rows_per_epoch
            steps_per_cycle = math.ceil(all_rows / num_rows)
            step_in_cycle = (step - first_step) % steps_per_cycle
            first_row = step_in_cycle * num_rows
            num_rows = min(num_rows, all_rows - first_row)
            key = [STATIC_STREAM, first_step, step_in_cycle]
        rule = self.settings.masking_rule(step)
        return StepRows(source, first_row, num_rows, rule, (self.seed, *key))

    def _rows_per_full_row(self, source: RowSource) -> int:
        """Return how many rows of the source have as many tokens as one row of full length."""
        return self.settings.max_length // source.settings.max_length


def pretraining_losses(
    model: BertModel, batch: Batch, pair_task: PairTaskName
) -> dict[str, LossTerm]:
    """Compute the loss terms, with vocabulary logits at masked positions only.

    `batch.targets` are those of `StepRows.batch`. Losses are in nats.

    Raises:
        ConfigError: the head of the pair task reads a pooler that the model lacks.
    """
    hidden = model.encode(batch)
    labels = batch.targets["masked_labels"]
    masked = hidden.index_select(0, batch.targets["masked_positions"])
    head = cast(MaskedLMHead, model.heads["masked_lm"])
    loss, correct = head.loss(masked, model.embeddings.word.weight, labels)
    terms = {"mlm": LossTerm(loss, correct, len(labels))}
    task = load_pair_task(pair_task)
    if task is not None:
        terms[task.term] = task.loss(model, hidden, batch)
    return terms


def terms_on_cpu(terms: Mapping[str, LossTerm]) -> dict[str, LossTerm]:
    """Copy the scalars of loss terms from the device that computed them."""
    return {
        name: replace(term, sum=term.sum.cpu(), correct=term.correct.cpu())
        for name, term in terms.items()
    }


def held_out_figures(batches: Iterable[Mapping[str, LossTerm]]) -> dict[str, float]:
    """Compute losses (nats) and accuracies over all batches, by journal name.

    Terms without a prediction are left out; `held_out_loss` is the weighted sum of the others.
    """
    by_name: dict[str, list[LossTerm]] = {}
    for terms in batches:
        for name, term in terms.items():
            by_name.setdefault(name, []).append(term)
    figures = {"held_out_loss": 0.0}
    for name, terms_of_batches in by_name.items():
        count = sum(term.count for term in terms_of_batches)
        if count == 0:
            continue
        loss = sum(term.sum.item() for term in terms_of_batches) / count
        figures["held_out_loss"] += terms_of_batches[0].weight * loss
        figures[f"held_out_{name}_loss"] = loss
        num_correct = sum(term.correct.item() for term in terms_of_batches)
        figures[f"held_out_{name}_accuracy"] = num_correct / count
    return figures


def describe_span(corpus: Corpus, start: int, end: int) -> str:
    """Format the place of the tokens from `start` to before `end`: "document 12 sentences 3-5"."""
    first, last = np.searchsorted(corpus.sentence_starts, [start, end - 1], side="right") - 1
    document = int(np.searchsorted(corpus.document_starts, first, side="right") - 1)
    offset = corpus.document_starts[document]
    return f"document {document} sentences {first - offset}-{last - offset}"
