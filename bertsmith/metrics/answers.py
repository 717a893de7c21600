"""Exact match and F1 of extracted answers, as official scorers compute them.

SQuAD 1.1 (Rajpurkar et al., 2016, section 6.1; `evaluate-v1.1.py`) and 2.0 (Rajpurkar et al., 2018;
`evaluate-v2.0.py`) compare answers as bags of words without case, punctuation and articles. CMRC
2018 (Cui et al., 2019; `cmrc2018_evaluate.py`) compares them by their longest common run of
characters. Scores equal those of the scripts to the last digit, since sums are taken in the same
order. A question may have several right answers; the best score over them counts.
"""

import operator
import re
import string
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from itertools import compress
from typing import Literal

Language = Literal["en", "zh"]
"""Comparison rules: SQuAD's for `en` (any language with spaces), CMRC's for `zh`."""
ScoredLanguage = Literal["auto", "en", "zh"]
"""Setting of the rules; `auto` leaves the choice to `find_language`."""
Protocol = Literal["1.1", "2.0"]
"""SQuAD version; 2.0 has questions without an answer, for which the empty text is correct."""

DEFAULT_THRESHOLD = 1.0
"""Default of the official scorer: no probability is above 1, so every answer is kept."""

INFINITE_SCORE = 2.0**128 - 2.0**104
"""No-answer score of a passage without words. It is the largest float32, since JSON has no
infinity."""

RECENT_TEXTS = 512
"""Number of recent texts (or pairs of texts) in each cache of this module. The texts of a question
are compared several times in a row, and then rarely again."""

# Patterns of the normalization, those of the official scripts.
ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
CHINESE_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
# CMRC's script applies nltk.word_tokenize to stretches without Chinese characters. In these
# stretches a match of `_ALONE` is a word of its own; white space and such matches separate the
# other words. The words equal nltk's in all texts of CMRC's trial and dev sets, though nltk also
# splits English contractions and sentence ends. The alternatives are: a mark, dots, two hyphens, a
# comma or colon that no digit follows, a full stop at the end of the stretch (closing marks may
# follow), an apostrophe or 's at the end of a word, and an apostrophe at the beginning of a word.
_ALONE = (
    r'[;@#$%&?!\[\](){}<>"«»“”‘—–]|\.{2,}|--|[,:](?![0-9])'
    r"|(?<!\.)\.(?=[\])}>\"»”’ ]*$)|'s?(?!\w)|(?<!\S)'"
)
# To guess the language: the whole block of Unicode, a few characters more than CMRC's script knows.
CHINESE_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
CHINESE_OR_NOT = re.compile(r"([\u4e00-\u9fa5])|[^\u4e00-\u9fa5]+")
CHINESE_WORD = re.compile(rf"{_ALONE}|(?:(?!{_ALONE})\S)+")


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """Mean exact match and F1 over `total` questions, from 0 to 100."""

    exact_match: float
    f1: float
    total: int


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """Highest score of any threshold, from 0 to 100, and the lowest threshold that reaches it."""

    score: float
    threshold: float


Pair = tuple[float, float]
"""Exact match and F1 of one question, each from 0 to 1."""
ZERO: Pair = (0, 0)  # integers, as in the official scripts; see `ScorePairs`


class ScorePairs(Iterable[Pair]):
    """Pairs of exact match and F1, stored in 9 bytes each.

    Integers are given back as integers: Python's `sum` rounds differently after adding a float than
    after adding an int, and the official scorers mix both.
    """

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._flags = array("B")  # 1: an exact match; 2: the F1 is a whole number
        self._f1 = array("d")
        for pair in pairs:
            self.append(pair)

    def append(self, pair: Pair) -> None:
        exact, f1 = pair
        self._flags.append(bool(exact) | 2 * isinstance(f1, int))
        self._f1.append(f1)

    def column(self, index: Literal[0, 1]) -> Sequence[float]:
        """Return all exact matches (0) or all F1 (1)."""
        return array("d", (pair[index] for pair in self))

    def __len__(self) -> int:
        return len(self._f1)

    def __iter__(self) -> Iterator[Pair]:
        for flags, f1 in zip(self._flags, self._f1, strict=True):
            yield flags & 1, int(f1) if flags & 2 else f1


@dataclass
class QuestionScores:
    """Scores of questions in order of addition, 11 bytes each.

    A protocol is a version of SQuAD's scorer: 1.1 or 2.0. `is_answerable` is 1 for each question
    with a gold answer, else 0; `replies` holds one letter for each question: `m` if the prediction
    is missing, `e` if it is empty, `t` if it is a text. `scores` follow SQuAD 2.0's protocol.
    `scores_1_1` holds, by index, the scores by protocol 1.1 of the few questions for which they
    differ (all words of a text are articles).
    """

    language: Language = "en"
    scores: ScorePairs = field(default_factory=ScorePairs)
    scores_1_1: dict[int, Pair] = field(default_factory=dict)
    is_answerable: bytearray = field(default_factory=bytearray)
    replies: bytearray = field(default_factory=bytearray)

    def __len__(self) -> int:
        return len(self.replies)

    @property
    def num_missing(self) -> int:
        """Number of questions without a prediction; they score 0."""
        return self.replies.count(b"m")

    @property
    def has_unanswerable(self) -> bool:
        """Whether there is a question without a gold answer."""
        return not all(self.is_answerable)

    def add(self, prediction: str | None, answers: Sequence[str]) -> None:
        """Score one more question; a prediction of None is missing.

        A missing prediction scores 0, as in SQuAD 1.1's scorer (SQuAD 2.0's scorer ends with an
        error). A question without an answer scores 0 by protocol 1.1, whose scorer rejects it.
        """
        self.is_answerable.append(bool(answers))
        if prediction is None:
            self.replies += b"m"
        else:
            self.replies += b"t" if prediction else b"e"
        scores = scores_by_protocol(prediction, answers, self.language)
        if answers and scores["1.1"] != scores["2.0"]:
            self.scores_1_1[len(self.scores)] = scores["1.1"]
        self.scores.append(scores["2.0"])

    def pairs(self, protocol: Protocol) -> ScorePairs:
        """Return the scores by a protocol.

        By protocol 1.1, questions without an answer score 0.
        """
        if protocol == "2.0" or not (self.scores_1_1 or self.has_unanswerable):
            return self.scores
        rows = zip(self.scores, self.is_answerable, strict=True)
        return ScorePairs(
            self.scores_1_1.get(index, pair) if is_answerable else ZERO
            for index, (pair, is_answerable) in enumerate(rows)
        )

    def with_threshold(
        self, pairs: Iterable[Pair], no_answer_probs: Sequence[float], threshold: float
    ) -> ScorePairs:
        """Return the scores if answers whose probability is above the threshold count as empty.

        `pairs` and `no_answer_probs` have one entry per question; the latter are the probabilities
        of "no answer". Missing predictions still score 0.
        """
        rows = zip(pairs, no_answer_probs, self.is_answerable, self.replies, strict=True)
        scores = ScorePairs()
        for pair, prob, is_answerable, reply in rows:
            is_dropped = prob > threshold and reply != ord("m")
            if not is_dropped:
                scores.append(pair)
            elif is_answerable:  # an empty answer is wrong
                scores.append((0.0, 0.0))
            else:  # an empty answer is right
                scores.append((1.0, 1.0))
        return scores

    def count_unanswered(self, no_answer_probs: Sequence[float], threshold: float) -> int:
        """Count the predictions that are empty, or taken as empty by `with_threshold`."""
        return sum(
            reply == ord("e") or (reply == ord("t") and prob > threshold)
            for prob, reply in zip(no_answer_probs, self.replies, strict=True)
        )

    def mean(
        self, pairs: ScorePairs, protocol: Protocol, *, answered: bool | None = None
    ) -> AnswerScores | None:
        """Average the scores of questions; None if there are none to average.

        Args:
            answered: True for the questions that have a gold answer, False for those that have
                none, None for all.
        """
        is_selected = bytes(
            answered is None or is_answerable == answered for is_answerable in self.is_answerable
        )
        total = sum(is_selected)
        if not total:
            return None
        # The script of 1.1 adds numbers one by one; the script of 2.0 calls `sum`, which since
        # Python 3.12 rounds less.
        add = sum if protocol == "2.0" else partial(reduce, operator.add)
        exact, f1 = (
            100.0 * add(pair[index] for pair in compress(pairs, is_selected)) / total
            for index in (0, 1)
        )
        return AnswerScores(exact, f1, total)

    def find_best_threshold(
        self,
        scores: Sequence[float],
        no_answer_probs: Sequence[float],
        order: Iterable[int] | None = None,
        lowest: float = 0.0,
    ) -> BestThreshold:
        """Find the no-answer threshold that maximizes the mean score (`find_best_thresh`).

        Answers are added from the lowest no-answer probability on, as in `evaluate-v2.0.py`.

        Args:
            scores: exact matches or F1 before any threshold, one per question.
            order: order of questions with equal probabilities; None keeps the order of addition.
            lowest: the threshold to return if it is best to keep no answer; the official script
                returns 0, which is right for probabilities.
        """
        # The sum of scores if no answer is kept: each question without an answer scores 1, unless
        # its prediction is missing.
        current: float = sum(
            not is_answerable and reply != ord("m")
            for is_answerable, reply in zip(self.is_answerable, self.replies, strict=True)
        )
        best = current
        threshold = lowest
        indices = range(len(self)) if order is None else order
        for index in sorted(indices, key=no_answer_probs.__getitem__):
            if self.replies[index] == ord("m"):
                continue
            # The answer to this question is kept from here on.
            if self.is_answerable[index]:
                current += scores[index]
            elif self.replies[index] == ord("t"):
                current -= 1  # a text is wrong here; an empty reply is right, and so still counts
            if current > best:
                best = current
                threshold = no_answer_probs[index]
        return BestThreshold(100.0 * best / len(self), threshold)


def scores_by_protocol(
    prediction: str | None, answers: Sequence[str], language: Language
) -> dict[Protocol, Pair]:
    """Score one question by both protocols; a prediction of None, which is missing, scores 0."""
    if prediction is None:
        return {"1.1": ZERO, "2.0": ZERO}
    if answers and all(compared_form(text, language) for text in (prediction, *answers)):
        pair = answer_scores(prediction, answers, language)
        return {"1.1": pair, "2.0": pair}  # the protocols differ only for texts with no words
    return {
        "1.1": answer_scores(prediction, answers, language) if answers else ZERO,
        "2.0": answer_or_none_scores(prediction, answers, language),
    }


def answer_scores(prediction: str, answers: Sequence[str], language: Language = "en") -> Pair:
    """Compute exact match and F1, 0 to 1, by SQuAD 1.1's or CMRC's rules.

    Each of the two is the best over all answers (Rajpurkar et al. 2016, section 6.1; Cui et al.
    2019 for "zh").

    >>> answer_scores("the Eiffel Tower!", ["Eiffel Tower", "tower"])
    (1, 1.0)
    """
    predicted_form = compared_form(prediction, language)
    forms = [compared_form(answer, language) for answer in answers]
    return int(predicted_form in forms), max(
        overlap_f1(prediction, answer, language) for answer in answers
    )


def answer_or_none_scores(
    prediction: str, answers: Sequence[str], language: Language = "en"
) -> Pair:
    """Compute exact match and F1, 0 to 1, by SQuAD 2.0's rules (Rajpurkar et al. 2018).

    If the question has no answer, only the empty text is correct. An answer of only articles and
    punctuation counts as no answer.
    """
    answers = [answer for answer in answers if compared_form(answer, language)] or [""]
    predicted_form = compared_form(prediction, language)
    forms = [compared_form(answer, language) for answer in answers]
    f1 = max(
        overlap_f1(prediction, answer, language)
        if predicted_form and form
        else int(predicted_form == form)
        for answer, form in zip(answers, forms, strict=True)
    )
    return int(predicted_form in forms), f1


@lru_cache(maxsize=RECENT_TEXTS)
def overlap_f1(prediction: str, answer: str, language: Language = "en") -> float:
    """Compute F1, 0 to 1, over the words that two texts share.

    For Chinese texts, the units of the longest common run count as shared.
    """
    predicted_units, answer_units = units(prediction, language), units(answer, language)
    if language == "zh":
        num_same = longest_common_run(predicted_units, answer_units)
    else:
        num_same = sum((Counter(predicted_units) & Counter(answer_units)).values())
    if num_same == 0:
        return 0  # an integer, as in the official scripts; see `ScorePairs`
    precision, recall = num_same / len(predicted_units), num_same / len(answer_units)
    return (2 * precision * recall) / (precision + recall)


@lru_cache(maxsize=RECENT_TEXTS)
def compared_form(text: str, language: Language = "en") -> str:
    """Normalize a text for comparison.

    English loses case, punctuation, articles and extra spaces; Chinese case, punctuation and outer
    white space.

    >>> compared_form(" The cat's  pyjamas. "), compared_form("《红楼梦》。", "zh")
    ('cats pyjamas', '红楼梦')
    """
    if language == "zh":
        return text.lower().strip().translate(CHINESE_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


@lru_cache(maxsize=RECENT_TEXTS)
def units(text: str, language: Language = "en") -> tuple[str, ...]:
    """Split the normalized text into the units that are compared: words, or Chinese characters.

    In a Chinese text, words of other scripts stay whole.

    >>> units("A red, red rose"), units("在iPhone 5上", "zh")
    (('red', 'red', 'rose'), ('在', 'iphone', '5', '上'))
    """
    form = compared_form(text, language)
    if language == "en":
        return tuple(form.split())
    return tuple(
        unit
        for part in CHINESE_OR_NOT.finditer(form)
        for unit in ([part[1]] if part[1] else CHINESE_WORD.findall(part[0]))
    )


def longest_common_run(a: Sequence[str], b: Sequence[str]) -> int:
    """Compute the length of the longest common run of units.

    >>> longest_common_run("abcdef", "xbcdyef")
    3
    """
    longest = 0
    # `run_lengths[j + 1]` is the length of the common run that ends with this unit of `a` and with
    # b[j]. `lengths_before` are the run lengths of the unit before it in `a`.
    lengths_before = [0] * (len(b) + 1)
    for unit in a:
        run_lengths = [0] * (len(b) + 1)
        for j, other in enumerate(b):
            if unit == other:
                run_lengths[j + 1] = lengths_before[j] + 1
        longest = max(longest, *run_lengths)
        lengths_before = run_lengths
    return longest


def find_language(gold: Iterable[Sequence[str]]) -> Language:
    """Return `zh` if most gold answers contain a Chinese character, else `en`."""
    is_chinese = [bool(CHINESE_CHARACTER.search(answer)) for answers in gold for answer in answers]
    return "zh" if 2 * sum(is_chinese) > len(is_chinese) else "en"
