"""Settings of the pre-training tasks: masking, pairs, rows and objective.

Length, batch size and optimizer are in `training/settings.py`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from bertsmith.config import ADDED_NAMES, NAMES_CODE
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.model.pretraining_catalog import (
    OBJECTIVES,
    PAIR_TASKS,
    MaskingShares,
    ObjectiveEntry,
    ObjectiveName,
    PairTaskName,
)
from bertsmith.pretraining.chinese_words import Segmenter, load_segmenter, read_word_list
from bertsmith.system.bounds import check_choice, check_upper_limits
from bertsmith.system.compute import FREE, Advanced

Masking = Literal["piece", "word", "span", "ngram"]
"""Units of masking. A piece is a token of the vocabulary."""
Rows = Literal["document", "across"]
"""Rows within a document, or across documents."""

MIN_LENGTH = 8
"""Least number of tokens in a row, special ones included."""
SHARES = ("mask_share", "random_share", "keep_share")
"""Shares of the chosen tokens that become [MASK] or a random token, or stay."""
FINAL_FIELDS = ("final_masking_rate", "final_mask_share", "final_random_share", "final_keep_share")
"""Settings that a masking schedule leads to, each for the setting of its name without "final_"."""
SHORT_SEQ_PROB = 0.1
"""The default of BERT's released code."""
START_LENGTH = 16
DISCRIMINATOR_WEIGHT = 50.0
"""The weight of ELECTRA's paper (Clark et al. 2020, appendix A)."""
HELD_OUT_MASKING: dict[str, Any] = {
    "masking": "piece",
    "word_list": None,
    "segmenter": None,
    "masking_rate": 0.15,
    "mask_share": None,
    "random_share": None,
    "keep_share": None,
}
"""Masking of eval rows; None stands for the default shares of the objective. It is the same in all
runs, so that runs with different masking can be compared."""


def added_objectives() -> list[str]:
    """Return the names of the objectives that modules of the user have added to `OBJECTIVES`."""
    return [name for name in OBJECTIVES if name not in get_args(ObjectiveName)]


def added_pair_tasks() -> list[str]:
    """Return the names of the pair tasks that modules of the user have added to `PAIR_TASKS`."""
    return [name for name in PAIR_TASKS if name not in get_args(PairTaskName)]


@dataclass(frozen=True)
class MaskingRule:
    """The masking of one step."""

    rate: float
    """Share of the tokens to predict, 0 to 1."""
    mask_share: float
    """Share of these that become [MASK], 0 to 1."""
    random_share: float
    """Share of these that become a random token, 0 to 1; the rest stays."""
    masking: Masking = "piece"
    """Unit of masking."""


@dataclass(frozen=True)
class PretrainingSettings:
    """Settings of the pre-training tasks."""

    max_length: int = 128
    """Maximum row length in tokens, special ones included. Shorter rows train faster."""
    start_share: Advanced[float | None] = None
    """Share of the run, at its beginning, with short rows of --start-length tokens; a step then has
    more rows. With short rows a model learns sooner to use the context, not only token frequencies.
    With --minutes, a few rows are timed to turn the share into steps."""
    start_steps: Advanced[int | None] = None
    """Number of first steps with short rows, in place of --start-share."""
    start_length: Advanced[int] = START_LENGTH
    """Row length in tokens during --start-share or --start-steps."""
    masking: Masking = "piece"
    """Unit of masking: piece masks single tokens (BERT), word all tokens of a word (whole-word
    masking), span 1 to 10 words, 3.8 on average (SpanBERT), ngram 1 to 3 words (ALBERT)."""
    word_list: Advanced[Path | None] = field(default=None, metadata=FREE)
    """Word list for masking Chinese by words: a file with a word on each line; the longest match is
    taken."""
    # Every value of `segmenter` names code; `config.py` refuses such a value in a recipe.
    segmenter: Advanced[str | None] = field(default=None, metadata={NAMES_CODE: lambda value: True})
    """Segmenter for masking Chinese by words, instead of a list: module:function of an installed
    package, such as jieba:lcut. It is code that runs, so a recipe cannot name it."""
    masking_rate: Advanced[float] = 0.15
    """Masking rate: the share of each row's tokens that the model must predict. Eval rows always
    have a rate of 15 % and the default shares, so that runs can be compared."""
    mask_share: Advanced[float | None] = None
    """Share of the tokens to predict that become [MASK]. By default 0.8; with replaced_token 0.85,
    as in ELECTRA's released code."""
    random_share: Advanced[float | None] = None
    """Share of the tokens to predict that become a random token. By default 0.1; with
    replaced_token 0."""
    keep_share: Advanced[float | None] = None
    """Share of the tokens to predict that stay as they are; the three shares add up to 1. By
    default 0.1; with replaced_token 0.15."""
    masking_schedule_share: Advanced[float | None] = None
    """Masking schedule: share of the run over which rate and shares change linearly to the final
    ones below. With --minutes, a few rows are timed to turn the share into steps."""
    masking_schedule_steps: Advanced[int | None] = None
    """Number of steps of the masking schedule, in place of --masking-schedule-share."""
    final_masking_rate: Advanced[float | None] = None
    """Masking rate at the end of the schedule. By default that of the beginning."""
    final_mask_share: Advanced[float | None] = None
    """Share of [MASK] at the end of the schedule. By default that of the beginning."""
    final_random_share: Advanced[float | None] = None
    """Share of random tokens at the end of the schedule. By default that of the beginning."""
    final_keep_share: Advanced[float | None] = None
    """Share of kept tokens at the end of the schedule. By default that of the beginning."""
    duplicates: Advanced[int] = 0
    """Number of static masks per row: with N, the masks of the first N epochs are repeated (BERT's
    released code has 10). 0 draws new masks each time (dynamic masking)."""
    # The function of `ADDED_NAMES` lists the names that are allowed besides those of the type.
    pairs: PairTaskName | None = field(default=None, metadata={ADDED_NAMES: added_pair_tasks})
    """Task on two segments: next_sentence (does the second follow the first in the text?);
    sentence_order (which of the two comes first?); contrastive, where two rows of a document must
    have vectors nearer to each other than to those of other rows; or none, where a row is one text.
    By default that of the model's family: next_sentence (bert), sentence_order (albert), else none;
    none with --rows across."""
    rows: Advanced[Rows] = "document"
    """Rows with --pairs none: document, part of one document; or across, whole sentences that go on
    across the end of a document, with a separator there (RoBERTa)."""
    short_seq_prob: Advanced[float] = SHORT_SEQ_PROB
    """Share of short rows: rows of two segments that are cut to a random length, so that the model
    sees short texts. Rows without pairs are short where documents end."""
    objective: Advanced[ObjectiveName | None] = field(
        default=None, metadata={ADDED_NAMES: added_objectives}
    )
    """Objective on tokens: masked_lm predicts masked tokens; replaced_token (ELECTRA) detects, for
    every token, whether a small generator, itself trained by masked LM, replaced it. By default
    that of the model's family: replaced_token (electra), else masked_lm."""
    generator_size: Advanced[float | None] = None
    """Width of the generator as a fraction of the model's, with replaced_token. By default a
    quarter, or that of --from."""
    discriminator_weight: Advanced[float] = DISCRIMINATOR_WEIGHT
    """Weight of the loss on replaced tokens, with replaced_token; the generator's loss has weight
    1."""

    def __post_init__(self) -> None:
        if self.objective is not None:
            check_choice("pretraining.objective", self.objective, OBJECTIVES)
        if self.pairs is not None:
            check_choice("pretraining.pairs", self.pairs, [*PAIR_TASKS, "none"])
        _check(
            "max_length", self.max_length, self.max_length >= MIN_LENGTH, f"{MIN_LENGTH} or more"
        )
        check_upper_limits(self, "pretraining.")
        share = self.start_share or 0.0
        steps = self.start_steps or 0
        _check("start_share", share, 0 <= share < 1, "0 or more and less than 1")
        _check("start_steps", steps, steps >= 0, "0 or more")
        if share or steps:
            fits = MIN_LENGTH <= self.start_length <= self.max_length
            allowed = f"{MIN_LENGTH} to {option('pretraining.max_length')}"
            _check("start_length", self.start_length, fits, allowed)
        elif (
            self.start_share is None
            and self.start_steps is None
            and self.start_length != START_LENGTH
        ):
            raise ConfigError(
                f"{option('pretraining.start_length')}: found {self.start_length}, but no step has "
                f"short rows. Give {option('pretraining.start_share')} or "
                f"{option('pretraining.start_steps')}, too, or leave it out."
            )
        _check("duplicates", self.duplicates, self.duplicates >= 0, "0 or more")
        _check("short_seq_prob", self.short_seq_prob, 0 <= self.short_seq_prob <= 1, "0 to 1")
        self._check_shares()
        self._check_generator()
        self._check_schedule()
        self._check_words()
        self._check_pairs()

    def _check_pairs(self) -> None:
        if self.pairs not in (None, "none") and not self.objective_entry.has_pairs:
            raise ConfigError(
                f"{option('pretraining.pairs')}: found {self.pairs!r} with the objective "
                f"{self.objective!r}, which learns nothing of pairs. Pass "
                f"{option('pairs', 'none')}, or {option('objective', 'masked_lm')}."
            )
        is_shortened = self.pairs is None or has_short_rows(self.pairs)
        if self.short_seq_prob != SHORT_SEQ_PROB and not is_shortened:
            raise ConfigError(
                f"{option('pretraining.short_seq_prob')}: found {self.short_seq_prob} with pairs "
                f"{self.pairs!r}, whose rows are full wherever the text goes on. Leave it out."
            )
        if self.rows == "across" and self.pair_task != "none":
            raise ConfigError(
                f"{option('pretraining.rows')}: found 'across' with pairs {self.pair_task!r}, "
                f"whose segments each lie in one document. Pass {option('pairs', 'none')} as well, "
                f"or leave out {option('rows')}."
            )

    def _check_shares(self) -> None:
        rate = self.masking_rate
        _check("masking_rate", rate, 0 < rate < 1, "more than 0 and less than 1")
        for name, share in zip(SHARES, self.shares, strict=True):
            _check(name, share, 0 <= share <= 1, "0 to 1")
        # Until the family determines the objective, the shares may be valid for either.
        totals = [sum(self._shares_with_defaults(shares)) for shares in self._default_shares]
        if not any(math.isclose(total, 1) for total in totals):
            names = " + ".join(option(f"pretraining.{name}") for name in SHARES)
            raise ConfigError(f"{names}: found {round(totals[0], 6)}; allowed is 1.")

    def _check_generator(self) -> None:
        size = self.generator_size
        weight = self.discriminator_weight
        if size is not None:
            _check("generator_size", size, 0 < size <= 1, "above 0, at most 1")
        _check("discriminator_weight", weight, 0 < weight < math.inf, "above 0")
        if self.has_generator or self.objective is None:
            return
        if size is not None or weight != DISCRIMINATOR_WEIGHT:
            name = "discriminator_weight" if size is None else "generator_size"
            raise ConfigError(
                f"{option(f'pretraining.{name}')}: found {getattr(self, name)} with the objective "
                f"{self.objective!r}, which has no generator. Leave it out, or pass "
                f"{option('objective', 'replaced_token')}."
            )

    def _check_schedule(self) -> None:
        share = self.masking_schedule_share or 0.0
        steps = self.masking_schedule_steps or 0
        _check("masking_schedule_share", share, 0 <= share <= 1, "0 to 1")
        _check("masking_schedule_steps", steps, steps >= 0, "0 or more")
        final_fields = [name for name in FINAL_FIELDS if getattr(self, name) is not None]
        is_by_share = self.masking_schedule_steps is None
        length = share if is_by_share else steps
        if bool(length) != bool(final_fields):
            name = "masking_schedule_share" if is_by_share else "masking_schedule_steps"
            problem = f"{length} with {_list_options(final_fields) or 'no final rate or share'}"
            raise ConfigError(
                f"{option(f'pretraining.{name}')}: found {problem}. Give both, a length of the "
                f"schedule and what it leads to ({_list_options(FINAL_FIELDS)}), or neither."
            )
        if not length:
            return
        if self.duplicates:
            raise ConfigError(
                f"{option('pretraining.duplicates')}: found {self.duplicates} with a masking "
                "schedule. Masks that come again cannot change: leave out one of the two."
            )
        self._check_end()

    def _check_end(self) -> None:
        """Check the settings at the end of the schedule; building them raises their errors."""
        try:
            self.at_end()
        except ConfigError as error:
            raise ConfigError(f"at the end of the schedule: {error.message}") from None

    def _check_words(self) -> None:
        word_sources = [
            name for name in ("word_list", "segmenter") if getattr(self, name) is not None
        ]
        if len(word_sources) == 2:
            raise ConfigError(
                f"{option('pretraining.segmenter')}: found together with "
                f"{option('pretraining.word_list')}. Both say what a Chinese word is: leave out "
                "one of them."
            )
        if word_sources and self.masking == "piece":
            raise ConfigError(
                f"{option(f'pretraining.{word_sources[0]}')}: found with masking 'piece', which "
                f"knows no words. Pass {option('masking', 'word')}, span or ngram as well."
            )

    @property
    def pair_task(self) -> PairTaskName:
        """The task on pairs: `pairs`, or if that is open the default for `objective` and `rows`."""
        if not self.objective_entry.has_pairs:
            return "none"
        if self.pairs is None:
            return "next_sentence" if self.rows == "document" else "none"
        return self.pairs

    @property
    def objective_entry(self) -> ObjectiveEntry:
        """The catalog's entry of the objective, by default masked LM."""
        return OBJECTIVES[self.objective or "masked_lm"]

    @property
    def has_generator(self) -> bool:
        """Whether the objective has a generator, as replaced token detection has."""
        return self.objective_entry.has_generator

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that a model needs for these tasks; the first is that of the objective."""
        head = self.objective_entry.head
        has_pair_head = self.pair_task != "none" and PAIR_TASKS[self.pair_task].has_head
        return (head, self.pair_task) if has_pair_head else (head,)

    def masking_rule(self, step: int = 1) -> MaskingRule:
        """Compute the masking rate and shares of a step, counted from 1.

        They change linearly from the first values to the last over `masking_schedule_steps`.
        """
        last = self.at_end()
        first_values = (self.masking_rate, *self.shares)
        last_values = (last.masking_rate, *last.shares)
        progress = min(1.0, (step - 1) / max(1, self.masking_schedule_steps or 0))
        rate, mask_share, random_share, _ = (
            before + progress * (after - before)
            for before, after in zip(first_values, last_values, strict=True)
        )
        return MaskingRule(rate, mask_share, random_share, self.masking)

    @property
    def shares(self) -> MaskingShares:
        """The shares masked, replaced and kept; those left open have the objective's defaults.

        If the objective is open, too, the defaults are those of masked LM.
        """
        return self._shares_with_defaults(self._default_shares[0])

    @property
    def _default_shares(self) -> list[MaskingShares]:
        """The default shares of the objective, or those of all if the objective is open."""
        if self.objective is None:
            return [entry.masking_shares for entry in OBJECTIVES.values()]
        return [self.objective_entry.masking_shares]

    def _shares_with_defaults(self, defaults: MaskingShares) -> MaskingShares:
        shares = (self.mask_share, self.random_share, self.keep_share)
        masked, replaced, kept = (
            default if share is None else share
            for share, default in zip(shares, defaults, strict=True)
        )
        return masked, replaced, kept

    def with_shares(self) -> "PretrainingSettings":
        """Return the settings with all three shares set."""
        masked, replaced, kept = self.shares
        return replace(self, mask_share=masked, random_share=replaced, keep_share=kept)

    def at_end(self) -> "PretrainingSettings":
        """Return the settings at the end of the schedule, without a schedule."""
        final: dict[str, Any] = {
            name.removeprefix("final_"): getattr(self, name)
            for name in FINAL_FIELDS
            if getattr(self, name) is not None
        }
        final |= dict.fromkeys(FINAL_FIELDS)
        return replace(self, **final, masking_schedule_share=None, masking_schedule_steps=0)

    @property
    def has_open_shares(self) -> bool:
        """Whether a share of the run must still be converted to a number of steps.

        These shares are `start_share` and `masking_schedule_share`.
        """
        is_start_open = self.start_steps is None and bool(self.start_share)
        return is_start_open or (
            self.masking_schedule_steps is None and bool(self.masking_schedule_share)
        )

    def with_steps_of(self, steps: int) -> "PretrainingSettings":
        """Return the settings with shares of the run converted to numbers of its `steps`.

        At least one step has rows of full length. A masking schedule has at least one step; steps
        after the schedule have the masking of its end.
        """
        start_steps = self.start_steps
        if start_steps is None:
            start_steps = max(0, min(round((self.start_share or 0.0) * steps), steps - 1))
        schedule_steps = self.masking_schedule_steps
        if schedule_steps is None:
            share = self.masking_schedule_share or 0.0
            schedule_steps = max(1, round(share * steps)) if share else 0
        return replace(self, start_steps=start_steps, masking_schedule_steps=schedule_steps)

    def at_start(self) -> "PretrainingSettings":
        """Return the settings with the row length of the first steps."""
        return replace(self, max_length=self.start_length)

    def of_held_out(self, pairs: PairTaskName) -> "PretrainingSettings":
        """Return the settings of eval rows, whose masking is equal in all runs.

        `pairs` is the pair task that the eval text allows.
        """
        changes: dict[str, Any] = {**HELD_OUT_MASKING, "duplicates": 0, "pairs": pairs}
        if not has_short_rows(pairs):  # `_check_pairs` would refuse another value
            changes["short_seq_prob"] = SHORT_SEQ_PROB
        return replace(self.at_end(), **changes)

    def load_segmenter(self) -> Segmenter | None:
        """Load the Chinese word list or segmenter, if one is named.

        Raises:
            ConfigError: it does not exist, or does not split text into words.
        """
        if self.word_list is not None:
            return read_word_list(self.word_list)
        return None if self.segmenter is None else load_segmenter(self.segmenter)


def has_short_rows(pairs: PairTaskName) -> bool:
    """Return whether `short_seq_prob` shortens some rows of this task on pairs."""
    return pairs != "none" and PAIR_TASKS[pairs].has_short_rows


def _list_options(names: Iterable[str]) -> str:
    return ", ".join(option(f"pretraining.{name}") for name in names)


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise SettingError(f"pretraining.{name}", value, allowed)
