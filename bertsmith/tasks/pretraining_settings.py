"""What pre-training predicts, as the user says it: settings in, checked choices out."""

import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from bertsmith.bounds import check_all_largest
from bertsmith.data.masking import MaskingRule
from bertsmith.data.segmenters import Segmenter, load_segmenter, read_word_list
from bertsmith.data.word_choice import Masking
from bertsmith.errors import ConfigError
from bertsmith.files import sha256_file

PairTask = Literal["next_sentence", "sentence_order", "none"]
Rows = Literal["document", "across"]
ObjectiveName = Literal["masked_lm", "replaced_token"]
Shares = tuple[float, float, float]

LATER_FIELDS = (
    "masking",
    "word_list",
    "segmenter",
    "final_masking_rate",
    "final_mask_share",
    "final_random_share",
    "final_keep_share",
    "masking_schedule_steps",
    "duplicates",
    "rows",
    "pairs",
    "objective",
    "generator_size",
    "discriminator_weight",
)
"""What the runs of the first version did not write down: only told where it is not the default."""


MIN_LENGTH = 8
"""Tokens in a row, special ones included."""
SHORT_SEQ_PROB = 0.1
DISCRIMINATOR_WEIGHT = 50.0


@dataclass(frozen=True)
class PretrainingSettings:
    """What is to be predicted, and in rows of what length."""

    max_length: int = 128
    """Tokens in a row at most, special ones included. Shorter rows train faster."""
    start_steps: int = 0
    """How many steps to begin with rows of --start-length, more of them in a step. A model that
    sees only near neighbours leaves the plateau of mere word frequencies sooner; some hundred are
    enough."""
    start_length: int = 16
    """Tokens in a row during those first steps."""
    masking: Masking = "piece"
    """What is hidden together: a piece (BERT), all pieces of a word (whole-word masking), a span of
    1 to 10 words, 3.8 on average (SpanBERT), or an ngram of 1 to 3 words (ALBERT)."""
    word_list: Path | None = None
    """Chinese words, one on each line, for masking by words: the longest that fits is one."""
    segmenter: str | None = None
    """The function that cuts Chinese text into words, instead of a list: module:function of an
    installed package, such as jieba:lcut."""
    masking_rate: float = 0.15
    """The share of each row's tokens that the model must predict. Held-out rows always have 15 %
    of their pieces chosen, 80/10/10, so that runs can be compared (with replaced_token,
    85/0/15)."""
    mask_share: float | None = None
    """Of these, the share hidden behind [MASK]. None means 0.8; with replaced_token 0.85, as in
    ELECTRA's released code."""
    random_share: float | None = None
    """Of these, the share replaced by a random token. None means 0.1; with replaced_token 0."""
    keep_share: float | None = None
    """Of these, the share left as they are. None means 0.1; with replaced_token 0.15. The three
    shares add up to 1."""
    masking_schedule_steps: int = 0
    """How many steps to go, in a straight line, from the rate and shares above to the final ones
    below; 0 keeps them."""
    final_masking_rate: float | None = None
    """The rate after those steps; the same where not given."""
    final_mask_share: float | None = None
    """The share hidden behind [MASK] after those steps."""
    final_random_share: float | None = None
    """The share replaced after those steps."""
    final_keep_share: float | None = None
    """The share left as it is after those steps."""
    duplicates: int = 0
    """0: masks are drawn anew whenever a text comes again (dynamic). N: each row has N masks, and
    after N rounds through the text the same come again (static; BERT's builder wrote 10). No file
    is needed."""
    pairs: PairTask | None = None
    """What is learnt of two segments in a row: whether the second follows the first in the text,
    in which order they stand, or none: rows are one text. None means what the family of the model
    learnt when it was new: next_sentence (bert), sentence_order (albert), or none. With --rows
    across it means none."""
    next_sentence: bool = True
    """--no-next-sentence is another way to say --pairs none."""
    rows: Rows = "document"
    """Rows without pairs: a window of one document, or across document ends, full of whole
    sentences, with a separator between documents (RoBERTa)."""
    short_seq_prob: float = SHORT_SEQ_PROB
    """With pairs, the share of rows that aim for a random shorter length, so that short texts are
    known. (Rows without pairs are as short as the ends of documents make them.)"""
    objective: ObjectiveName | None = None
    """What is learnt of tokens: to guess those that are hidden (masked_lm), or to tell of every
    token whether a small generator, which learns to guess the hidden ones, has replaced it
    (replaced_token, ELECTRA). None means what the family learnt when it was new: replaced_token
    (electra) or masked_lm."""
    generator_size: float | None = None
    """With replaced_token, the width of the generator as a share of the model's. None means a
    quarter, or that of --from."""
    discriminator_weight: float = DISCRIMINATOR_WEIGHT
    """With replaced_token, how many times telling replaced tokens counts beside guessing."""

    def __post_init__(self) -> None:
        """Refuse values that leave nothing to predict or nothing to predict from."""
        _check(
            "max_length", self.max_length, self.max_length >= MIN_LENGTH, f"{MIN_LENGTH} or more"
        )
        check_all_largest(self, "pretraining.")
        _check("start_steps", self.start_steps, self.start_steps >= 0, "0 or more")
        if self.start_steps:
            fits = MIN_LENGTH <= self.start_length <= self.max_length
            _check("start_length", self.start_length, fits, "8 to max_length")
        _check("duplicates", self.duplicates, self.duplicates >= 0, "0 or more")
        _check("short_seq_prob", self.short_seq_prob, 0 <= self.short_seq_prob <= 1, "0 to 1")
        self._check_shares()
        self._check_replacing()
        self._check_schedule()
        self._check_words()
        self._check_pairs()

    def _check_pairs(self) -> None:
        if self.pairs == "next_sentence" and not self.next_sentence:
            raise ConfigError(
                "pretraining.next_sentence: found false with pairs 'next_sentence'. Leave out one "
                "of the two."
            )
        if self.pairs == "none" and self.short_seq_prob != SHORT_SEQ_PROB:
            raise ConfigError(
                f"pretraining.short_seq_prob: found {self.short_seq_prob} with pairs 'none', whose "
                "rows are full wherever the text goes on. Leave it out."
            )
        if self.rows == "across" and self.pair_task != "none":
            raise ConfigError(
                f"pretraining.rows: found 'across' with pairs {self.pair_task!r}, whose segments "
                "each lie in one document. Pass --pairs none as well, or leave out --rows."
            )

    def _check_shares(self) -> None:
        rate = self.masking_rate
        _check("masking_rate", rate, 0 < rate < 1, "more than 0 and less than 1")
        for name, share in zip(SHARES, self.shares, strict=True):
            _check(name, share, 0 <= share <= 1, "0 to 1")
        # Where the family is yet to say what is learnt, the shares may be right for either.
        totals = [sum(self._shares_beside(usual)) for usual in self._usual_shares]
        holds = any(math.isclose(total, 1) for total in totals)
        _check(" + ".join(SHARES), round(totals[0], 6), holds, "1")

    def _check_replacing(self) -> None:
        size, weight = self.generator_size, self.discriminator_weight
        if size is not None:
            _check("generator_size", size, 0 < size <= 1, "above 0, at most 1")
        _check("discriminator_weight", weight, 0 < weight < math.inf, "above 0")
        if self.objective == "masked_lm" and (size is not None or weight != DISCRIMINATOR_WEIGHT):
            name = "discriminator_weight" if size is None else "generator_size"
            raise ConfigError(
                f"pretraining.{name}: found {getattr(self, name)} with the objective 'masked_lm', "
                "which has no generator. Leave it out, or pass --objective replaced_token."
            )
        if not self.replaces:
            return
        if self.pairs not in (None, "none"):
            raise ConfigError(
                f"pretraining.pairs: found {self.pairs!r} with the objective 'replaced_token', "
                "which learns nothing of pairs. Pass --pairs none, or --objective masked_lm."
            )

    def _check_schedule(self) -> None:
        steps = self.masking_schedule_steps
        _check("masking_schedule_steps", steps, steps >= 0, "0 or more")
        given = [name for name in FINAL_FIELDS if getattr(self, name) is not None]
        if bool(steps) != bool(given):
            found = f"{steps} with {', '.join(given) or 'no final rate or share'}"
            raise ConfigError(
                f"pretraining.masking_schedule_steps: found {found}. Give both, so many steps and "
                f"what they lead to ({', '.join(FINAL_FIELDS)}), or neither."
            )
        if steps and self.duplicates:
            raise ConfigError(
                f"pretraining.duplicates: found {self.duplicates} with a schedule of "
                f"{steps} steps. Masks that come again cannot change: leave out one of the two."
            )
        if steps:
            self._check_end()

    def _check_end(self) -> None:
        try:
            self.at_end()
        except ConfigError as error:
            raise ConfigError(f"at the end of the schedule: {error}") from None

    def _check_words(self) -> None:
        given = [name for name in ("word_list", "segmenter") if getattr(self, name) is not None]
        if len(given) == 2:
            raise ConfigError(
                "pretraining.segmenter: found together with word_list. Both say what a Chinese "
                "word is: leave out one of them."
            )
        if given and self.masking == "piece":
            raise ConfigError(
                f"pretraining.{given[0]}: found with masking 'piece', which knows no words. Pass "
                "--masking word, span or ngram as well."
            )

    @property
    def pair_task(self) -> PairTask:
        """What is learnt of pairs, however it was said."""
        if self.replaces:
            return "none"
        if self.pairs is None:
            return "next_sentence" if self.next_sentence and self.rows == "document" else "none"
        return self.pairs

    @property
    def replaces(self) -> bool:
        """Whether replaced tokens are to be told."""
        return self.objective == "replaced_token"

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that a model needs to learn this."""
        if self.replaces:
            return ("replaced_token",)
        return ("masked_lm",) if self.pair_task == "none" else ("masked_lm", self.pair_task)

    def masking_rule(self, step: int = 1) -> MaskingRule:
        """The rate and shares of a step, counted from 1: the final ones after so many steps."""
        begin, end = self._rule(), self.at_end()._rule()
        done = min(1.0, (step - 1) / max(1, self.masking_schedule_steps))
        return MaskingRule(
            begin.rate + done * (end.rate - begin.rate),
            begin.mask_share + done * (end.mask_share - begin.mask_share),
            begin.random_share + done * (end.random_share - begin.random_share),
            self.masking,
        )

    @property
    def shares(self) -> Shares:
        """Hidden, replaced and kept, with the objective's where one was not given."""
        return self._shares_beside(self._usual_shares[0])

    @property
    def _usual_shares(self) -> list[Shares]:
        """Of the objective; where it is not said, masked LM's and ELECTRA's."""
        if self.objective is None:
            return [BERT_SHARES, ELECTRA_SHARES]
        return [ELECTRA_SHARES if self.replaces else BERT_SHARES]

    def _shares_beside(self, usual: Shares) -> Shares:
        given = (self.mask_share, self.random_share, self.keep_share)
        hidden, replaced, kept = (u if g is None else g for g, u in zip(given, usual, strict=True))
        return hidden, replaced, kept

    def with_shares(self) -> "PretrainingSettings":
        """The same with all shares said."""
        hidden, replaced, kept = self.shares
        return replace(self, mask_share=hidden, random_share=replaced, keep_share=kept)

    def _rule(self) -> MaskingRule:
        mask_share, random_share, _ = self.shares
        return MaskingRule(self.masking_rate, mask_share, random_share, self.masking)

    def at_end(self) -> "PretrainingSettings":
        """The settings at the end of the schedule, without one."""
        final: dict[str, Any] = {
            name.removeprefix("final_"): getattr(self, name)
            for name in FINAL_FIELDS
            if getattr(self, name) is not None
        }
        final |= dict.fromkeys(FINAL_FIELDS)
        return replace(self, **final, masking_schedule_steps=0)

    def load_segmenter(self) -> Segmenter | None:
        """What cuts Chinese text into words, if anything was named.

        Raises:
            ConfigError: it is not there, or does not do that.
        """
        if self.word_list is not None:
            return read_word_list(self.word_list)
        return None if self.segmenter is None else load_segmenter(self.segmenter)

    def identity(self) -> dict[str, Any]:
        """What decides the batches, as plain JSON; equal to an earlier version's where that could
        say the same."""
        found = asdict(self) | {"next_sentence": self.pair_task == "next_sentence"}
        found["pairs"] = "sentence_order" if self.pair_task == "sentence_order" else None
        found["objective"] = "replaced_token" if self.replaces else None
        found |= zip(SHARES, self.shares, strict=True)
        if self.word_list is not None:
            found["word_list"] = sha256_file(self.word_list)
        if not self.start_steps:
            found["start_length"] = FIRST_START_LENGTH  # it decides nothing
        defaults = {field.name: field.default for field in fields(self)}
        return {
            name: value
            for name, value in found.items()
            if name not in LATER_FIELDS or value != defaults[name]
        }


FIRST_START_LENGTH = 32
"""The default of the first version, which wrote it down in any case."""

SHARES = ("mask_share", "random_share", "keep_share")
BERT_SHARES = (0.8, 0.1, 0.1)
ELECTRA_SHARES = (0.85, 0.0, 0.15)
"""Shares of the chosen tokens that are hidden, replaced at random, and kept. ELECTRA's are those of
its released code; its paper hides all of them. A small generator that sees no word it has to guess
may stay long with mere word frequencies: after 30 M tokens its loss at hidden words was 6.89 nats,
and with some words kept at most 6.56 after 17 M (one run each)."""

FINAL_FIELDS = ("final_masking_rate", "final_mask_share", "final_random_share", "final_keep_share")


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"pretraining.{name}: found {value}; allowed is {allowed}.")
