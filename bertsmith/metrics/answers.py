"""Scores for extracted answers: texts in, exact match and F1 out, as official scorers give them.

SQuAD 1.1 (Rajpurkar et al., 2016, section 6.1; `evaluate-v1.1.py`) and 2.0 (Rajpurkar et al., 2018;
`evaluate-v2.0.py`) compare answers as bags of words without case, punctuation and articles; CMRC
2018 (Cui et al., 2019; `cmrc2018_evaluate.py`) by their longest common run of characters. The
figures equal those scripts' to the last digit: everything is added up in the order of theirs.
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
from typing import Literal, overload

Language = Literal["en", "zh"]
"""Whose rules compare two texts: SQuAD's for `en` (any language with spaces), CMRC's for `zh`."""
ScoredLanguage = Literal["auto", "en", "zh"]
Protocol = Literal["1.1", "2.0"]
"""SQuAD 2.0 has questions without an answer, for which the empty text is right."""

DEFAULT_THRESHOLD = 1.0
"""As in the official scorer: a probability is never above it, so no answer is taken back."""

ENDLESS = 2.0**128 - 2.0**104
"""The no-answer score of a passage without a word: the largest fp32, as JSON has no infinity."""

RECENT_TEXTS = 512
"""A question's texts are looked at several times, but those of long ago hardly ever."""

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)
CHINESE_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
# CMRC's script has nltk.word_tokenize cut the stretches without Chinese characters. These stand
# alone there, and what is between them and white space is a word: the same cuts as nltk's in all
# texts of CMRC's trial and dev sets, though nltk knows English contractions and sentence ends too.
_ALONE = (
    r'[;@#$%&?!\[\](){}<>"«»“”‘—–]|\.{2,}|--|[,:](?![0-9])'
    r"|(?<!\.)\.(?=[\])}>\"»”’ ]*$)|'s?(?!\w)|(?<!\S)'"
)
CHINESE = re.compile(r"[\u4e00-\u9fff]")
CHINESE_OR_NOT = re.compile(r"([\u4e00-\u9fa5])|[^\u4e00-\u9fa5]+")
CHINESE_WORD = re.compile(rf"{_ALONE}|(?:(?!{_ALONE})\S)+")


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """Mean exact match and F1 over `total` questions, both from 0 to 100."""

    exact_match: float
    f1: float
    total: int


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The best score that a threshold can give, from 0 to 100, and the lowest such threshold."""

    score: float
    threshold: float


Pair = tuple[float, float]
"""Exact match and F1 of one question, each from 0 to 1."""
NOTHING: Pair = (0, 0)
CHOSEN = {
    answered: bytes(answered in (None, bool(has)) for has in range(256))
    for answered in (None, False, True)
}
"""For `is_answered`: 1 for each question that is asked for, else 0."""


class Pairs(Sequence[Pair]):
    """Pairs of scores, 9 bytes each.

    What was put in as a whole number comes out as one: Python's `sum` rounds after adding a float
    otherwise than after adding an int, and so do the official scorers, which have both.
    """

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._flags = array("B")  # 1: an exact match; 2: the F1 is a whole number
        self._f1 = array("d")
        for pair in pairs:
            self.append(pair)

    def append(self, pair: Pair) -> None:
        """Put one more at the end."""
        exact, f1 = pair
        self._flags.append(bool(exact) | 2 * isinstance(f1, int))
        self._f1.append(f1)

    def column(self, place: Literal[0, 1]) -> Sequence[float]:
        """All exact matches, or all F1."""
        return array("d", (pair[place] for pair in self))

    def __len__(self) -> int:
        return len(self._f1)

    def __iter__(self) -> Iterator[Pair]:
        for flags, f1 in zip(self._flags, self._f1, strict=True):
            yield flags & 1, int(f1) if flags & 2 else f1

    @overload
    def __getitem__(self, place: int) -> Pair: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Pair]: ...
    def __getitem__(self, place: int | slice) -> Pair | Sequence[Pair]:
        """One pair, or several."""
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        flags, f1 = self._flags[place], self._f1[place]
        return flags & 1, int(f1) if flags & 2 else f1


@dataclass
class QuestionScores:
    """The scores of questions in their order, as they are added: 11 bytes for each.

    `is_answered` says of each question whether there is an answer to find; `given` holds a letter
    for each: `m` where there is no prediction at all, `e` for an empty one, `t` for a text.
    `scores` are those of SQuAD 2.0's protocol, `other_scores` those of 1.1 by the places of the
    few questions with an answer for which it gives others (all words of a text are articles).
    """

    language: Language = "en"
    scores: Pairs = field(default_factory=Pairs)
    other_scores: dict[int, Pair] = field(default_factory=dict)
    is_answered: bytearray = field(default_factory=bytearray)
    given: bytearray = field(default_factory=bytearray)

    def __len__(self) -> int:
        return len(self.given)

    @property
    def num_missing(self) -> int:
        """How many questions have no prediction; they score 0."""
        return self.given.count(b"m")

    @property
    def has_unanswerable(self) -> bool:
        """Whether there is a question without an answer."""
        return not all(self.is_answered)

    def add(self, prediction: str | None, answers: Sequence[str]) -> None:
        """Score one more question; None where there is no prediction.

        SQuAD 1.1's scorer gives that 0 (2.0's stops there), and cannot score a question without
        an answer, which here gets 0 too.
        """
        self.is_answered.append(bool(answers))
        self.given += b"m" if prediction is None else b"t" if prediction else b"e"
        both = both_scores(prediction, answers, self.language)
        if answers and both["1.1"] != both["2.0"]:
            self.other_scores[len(self.scores)] = both["1.1"]
        self.scores.append(both["2.0"])

    def pairs(self, protocol: Protocol) -> Pairs:
        """The scores by a protocol; that of SQuAD 1.1 gives questions without an answer 0."""
        if protocol == "2.0" or not (self.other_scores or self.has_unanswerable):
            return self.scores
        return Pairs(
            self.other_scores.get(place, pair) if has else NOTHING
            for place, (pair, has) in enumerate(zip(self.scores, self.is_answered, strict=True))
        )

    def with_threshold(
        self, pairs: Iterable[Pair], no_answer_probs: Sequence[float], threshold: float
    ) -> Pairs:
        """The scores if no answer is given to questions whose probability is above `threshold`.

        All have one entry per question.
        """
        taken_back = [(float(not has),) * 2 for has in (False, True)]
        return Pairs(
            taken_back[has] if is_given != ord("m") and prob > threshold else pair
            for pair, prob, has, is_given in zip(
                pairs, no_answer_probs, self.is_answered, self.given, strict=True
            )
        )

    def count_unanswered(self, no_answer_probs: Sequence[float], threshold: float) -> int:
        """How many predictions are empty, or taken back as in `with_threshold`."""
        return sum(
            is_given == ord("e") or (is_given == ord("t") and prob > threshold)
            for prob, is_given in zip(no_answer_probs, self.given, strict=True)
        )

    def mean(
        self, pairs: Sequence[Pair], protocol: Protocol, *, answered: bool | None = None
    ) -> AnswerScores | None:
        """Means over all questions, or over those with or without an answer; None if none are."""
        chosen = self.is_answered.translate(CHOSEN[answered])
        total = sum(chosen)
        if not total:
            return None
        # The script of 1.1 adds one by one; that of 2.0 calls `sum`, which from Python 3.12 on
        # rounds less.
        add = sum if protocol == "2.0" else partial(reduce, operator.add)
        exact, f1 = (
            100.0 * add(pair[place] for pair in compress(pairs, chosen)) / total for place in (0, 1)
        )
        return AnswerScores(exact, f1, total)

    def find_best_threshold(
        self,
        scores: Sequence[float],
        no_answer_probs: Sequence[float],
        order: Iterable[int] | None = None,
        lowest: float = 0.0,
    ) -> BestThreshold:
        """The threshold for the no-answer probability above which no answer is best given.

        `scores` are exact matches or F1 before any threshold. From the surest answer on, each
        further one that is given changes the sum (`evaluate-v2.0.py`, `find_best_thresh`). Where
        probabilities are equal, the questions' `order` decides, which is theirs if not given.
        Where it is best to give no answer at all, the threshold is `lowest`; the script's is 0,
        which is right for probabilities.
        """
        current: float = self.is_answered.count(0)
        best, threshold = current, lowest
        places = range(len(self)) if order is None else order
        for place in sorted(places, key=no_answer_probs.__getitem__):
            if self.given[place] == ord("m"):
                continue
            if self.is_answered[place]:
                current += scores[place]
            elif self.given[place] == ord("t"):
                current -= 1
            if current > best:
                best, threshold = current, no_answer_probs[place]
        return BestThreshold(100.0 * best / len(self), threshold)


def both_scores(
    prediction: str | None, answers: Sequence[str], language: Language
) -> dict[Protocol, Pair]:
    """The scores of a question by either protocol; see `QuestionScores.add`."""
    if prediction is None:
        return {"1.1": NOTHING, "2.0": NOTHING}
    if answers and all(compared_form(text, language) for text in (prediction, *answers)):
        pair = answer_scores(prediction, answers, language)
        return {"1.1": pair, "2.0": pair}  # they differ only where nothing is compared
    return {
        "1.1": answer_scores(prediction, answers, language) if answers else NOTHING,
        "2.0": answer_or_none_scores(prediction, answers, language),
    }


def answer_scores(prediction: str, answers: Sequence[str], language: Language = "en") -> Pair:
    """Exact match and F1, the best over all answers, by SQuAD 1.1's or CMRC's rules.

    >>> answer_scores("the Eiffel Tower!", ["Eiffel Tower", "tower"])
    (1, 1.0)
    """
    given = compared_form(prediction, language)
    forms = [compared_form(answer, language) for answer in answers]
    return int(given in forms), max(overlap_f1(prediction, answer, language) for answer in answers)


def answer_or_none_scores(
    prediction: str, answers: Sequence[str], language: Language = "en"
) -> Pair:
    """Exact match and F1 by SQuAD 2.0's rules: without an answer only the empty text is right.

    An answer of nothing but articles and punctuation counts as none.
    """
    answers = [answer for answer in answers if compared_form(answer, language)] or [""]
    given = compared_form(prediction, language)
    forms = [compared_form(answer, language) for answer in answers]
    f1 = max(
        overlap_f1(prediction, answer, language) if given and form else int(given == form)
        for answer, form in zip(answers, forms, strict=True)
    )
    return int(given in forms), f1


@lru_cache(maxsize=RECENT_TEXTS)
def overlap_f1(prediction: str, answer: str, language: Language = "en") -> float:
    """The harmonic mean of precision and recall of the words that two texts share."""
    given, wanted = units(prediction, language), units(answer, language)
    if language == "zh":
        num_same = longest_common_run(given, wanted)
    else:
        num_same = sum((Counter(given) & Counter(wanted)).values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(given), num_same / len(wanted)
    return (2 * precision * recall) / (precision + recall)


@lru_cache(maxsize=RECENT_TEXTS)
def compared_form(text: str, language: Language = "en") -> str:
    """What is compared of a text: for English without case, punctuation, articles, extra spaces.

    >>> compared_form(" The cat's  pyjamas. "), compared_form("《红楼梦》。", "zh")
    ('cats pyjamas', '红楼梦')
    """
    if language == "zh":
        return text.lower().strip().translate(CHINESE_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


@lru_cache(maxsize=RECENT_TEXTS)
def units(text: str, language: Language = "en") -> tuple[str, ...]:
    """The words of a text's compared form; of Chinese its characters, and words between them.

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
    """How many neighbouring units two texts have in common at most.

    >>> longest_common_run("abcdef", "xbcdyef")
    3
    """
    longest, above = 0, [0] * (len(b) + 1)
    for first in a:
        row = [0] * (len(b) + 1)
        for place, second in enumerate(b):
            if first == second:
                row[place + 1] = above[place] + 1
        longest, above = max(longest, *row), row
    return longest


def find_language(gold: Iterable[Sequence[str]]) -> Language:
    """`zh` where more than half of the right answers hold a Chinese character, else `en`."""
    is_chinese = [bool(CHINESE.search(answer)) for answers in gold for answer in answers]
    return "zh" if 2 * sum(is_chinese) > len(is_chinese) else "en"
