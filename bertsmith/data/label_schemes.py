"""Label schemes for spans of words: IOB1, IOB2, BIOES, BMES, BILOU, plain labels.

A label is `O` outside of spans. Inside, it is a letter for the word's position in its span, a
hyphen and the span's type (`B-PER`); if there is only one type, as in word segmentation, it may be
the letter alone. In the plain scheme, a label describes a single word, such as its part of speech.

Spans are read as conlleval and seqeval read them: a label that does not continue a span begins a
new one, so that label sequences which break their scheme have spans, too. `strict` leaves out the
spans that break the scheme.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from bertsmith.data.near_schemes import find_near_label, is_filler
from bertsmith.errors import InputError, option

Scheme = Literal["IOB1", "IOB2", "BIOES", "BMES", "BILOU", "plain"]

Role = Literal["O", "B", "I", "E", "S"]
"""Position of a word: outside of spans (O), or the first (B), an inner (I), the last (E) or the
only (S) word of a span. In IOB1 and IOB2 no letter says that a word is the last or the only one."""

LETTERS: dict[Scheme, str] = {
    "IOB1": "BI",
    "IOB2": "BI",
    "BIOES": "BIES",
    "BMES": "BMES",
    "BILOU": "BILU",
}
"""Letters of each scheme for the first, inner, last and only word of a span; IOB1 and IOB2 have
only the first two."""

ROLES: dict[str, Role] = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""The role that each letter of the schemes stands for."""
PREFIXED = re.compile(r"([BIESMLU])-(.+)", re.DOTALL)
"""Pattern of labels such as `B-PER`, whose groups are the letter and the type."""
OUTSIDE = "O"


class Part(NamedTuple):
    """A parsed label: the role of its word in a span, and the type of the span.

    The type is "" if the label is `O`, or a letter alone.
    """

    role: Role
    type: str


class Span(NamedTuple):
    """A span of the words from `start` up to, but not including, `end`, and its label."""

    label: str
    start: int
    end: int


NO_PART = Part("O", "")
"""The parsed label `O`, which also stands for what is before the first and after the last word."""


@lru_cache(maxsize=65_536)
def parse_label(label: str) -> Part:
    """Parse a label of any scheme but the plain one.

    Raises:
        InputError: the label is neither `O`, nor a scheme's letter, nor one such as `B-PER`.
    """
    if label == OUTSIDE:
        return NO_PART
    if match := PREFIXED.fullmatch(label):
        return Part(ROLES[match[1]], match[2])
    if label in ROLES:
        return Part(ROLES[label], "")
    raise InputError(
        f"the label '{label}' does not show where a span begins. Allowed are O and labels such as "
        "B-PER and I-PER; for labels that stand for one word each, pass "
        f"{option('scheme', 'plain')}."
    )


def detect_scheme(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Detect the scheme of label sequences from their letters and from how spans begin.

    >>> detect_scheme([["I-PER", "I-PER", "O"]]), detect_scheme([["NOUN", "VERB"]])
    ('IOB1', 'plain')

    Raises:
        InputError: some labels mark spans and others do not; or labels nearly follow a scheme, as
            `B_PER` does. If only few labels look as if they marked spans, which they may do by
            chance, this is no error: the scheme is plain.
    """
    sequences = list(sequences)
    scheme = _detect(sequences)
    if scheme == "plain" or _hold_blanks(sequences):
        _check_not_near(Counter(label for labels in sequences for label in labels))
    return scheme


def _hold_blanks(sequences: Iterable[Sequence[str]]) -> bool:
    """Return whether some type begins or ends with a blank, as in `B- PER`."""
    types = {_part_or_outside(label).type for labels in sequences for label in labels}
    return any(type_ != type_.strip() for type_ in types)


def _check_not_near(labels: Counter[str]) -> None:
    """Raise InputError for labels that nearly follow a scheme."""
    if near := find_near_label(list(labels)):
        raise InputError(
            f"the label '{near.label}' (found {labels[near.label]:,}×) looks like '{near.written}' "
            f"of a scheme that marks spans. Write it so, or pass {option('scheme', 'plain')} if "
            "each label stands for one word."
        )


def _detect(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Detect the scheme as `detect_scheme` does, but let labels that nearly follow one be plain."""
    labels: Counter[str] = Counter()
    # Only spans with no span of the same type directly before them tell IOB1 and IOB2 apart.
    first_roles: Counter[Role] = Counter()
    for sequence in sequences:
        labels.update(sequence)
        for before, label in pairwise([OUTSIDE, *sequence]):
            part = _part_or_outside(label)
            part_before = _part_or_outside(before)
            is_first = part.type != part_before.type or part_before.role == "O"
            if is_first:  # of a span, or outside of spans, which decides nothing
                first_roles[part.role] += 1
    letters = _letters(labels)
    if letters is None:
        return "plain"
    if letters & {"L", "U"}:
        return "BILOU"
    if letters & {"M", "E", "S"}:
        # Word segmentation of short words has no M.
        is_bare = not any(PREFIXED.fullmatch(label) for label in labels)
        return "BMES" if "M" in letters or (is_bare and "I" not in letters) else "BIOES"
    return "IOB1" if first_roles["I"] > first_roles["B"] else "IOB2"


def scheme_of_predictions(sequences: Iterable[Sequence[str]], gold: Scheme) -> Scheme:
    """Detect the scheme of predicted labels: that of the gold labels if the predictions allow it.

    Predictions in the gold scheme may by mistake begin spans with I, or lack a rare letter. So they
    have another scheme in three cases only: they use a letter that the gold scheme does not have;
    they use only B and I, but the gold scheme also has letters for last words; or the gold scheme
    is IOB1 and they look like IOB2 (in IOB1 hardly a span begins with B).

    >>> scheme_of_predictions([["I-PER", "O"]], "IOB2")
    'IOB2'

    Raises:
        InputError: some predicted labels mark spans and others do not; or the gold scheme marks
            spans, and the predicted labels only nearly follow a scheme, such as `B_PER`.
    """
    sequences = list(sequences)
    labels = Counter(label for sequence in sequences for label in sequence)
    if gold == "BILOU" and labels.keys() & {"L", "U"} and labels.keys() <= set("BILOU"):
        return gold  # also without B, where `detect_scheme` takes L and U for plain labels
    scheme = _detect(sequences) if gold == "plain" else detect_scheme(sequences)
    letters = _letters(labels)
    if letters == set():  # all labels are O
        return gold
    if letters is None or gold == "plain" or not letters <= set(LETTERS[gold]):
        return scheme
    has_only_b_and_i = scheme in ("IOB1", "IOB2")
    if gold != "IOB2" and has_only_b_and_i:
        return scheme
    return gold


def _letters(labels: Counter[str]) -> set[str] | None:
    """Collect the letters of all labels, none if all are `O`; None if the labels are plain.

    Raises:
        InputError: some labels mark spans and others do not.
    """
    inside = [label for label in labels if label != OUTSIDE]
    if not inside:
        return set()
    if _are_bare_letters(set(inside)):
        return set(inside)  # spans have one type, which the labels do not name
    matches = {label: PREFIXED.fullmatch(label) for label in inside}
    unmatched = [label for label, match in matches.items() if not match]
    if not unmatched:
        return {label[0] for label in inside}
    are_most_matched = 2 * len(unmatched) < len(inside)
    if are_most_matched or _mark_spans(filter(None, matches.values()), unmatched):
        raise InputError(
            f"the label '{unmatched[0]}' (found {labels[unmatched[0]]:,}×) does not show where a "
            f"span begins, as '{next(label for label in inside if matches[label])}' does. Fix it, "
            f"or pass {option('scheme', 'plain')} if each label stands for one word."
        )
    return None


def _are_bare_letters(labels: set[str]) -> bool:
    """Return whether labels are letters of one scheme, without types.

    In BILOU one of them must be B: L and U alone are also usual for lower and upper case.
    """
    if labels <= set("BIES") or labels <= set("BMES"):
        return True
    return "B" in labels and labels <= set("BILU")


def _mark_spans(matches: Iterable[re.Match[str]], unmatched: Iterable[str]) -> bool:
    """Return whether labels that look like those of a scheme really mark spans.

    They do in two cases: some type has both B and a letter for later words; or all other labels,
    `unmatched`, are fillers such as [CLS], which programs give to tokens that are no words.
    """
    letters = defaultdict(set)
    for match in matches:
        letters[match[2]].add(match[1])
    later_letters = {"I", "M", "E", "L"}
    has_long_spans = any(
        "B" in type_letters and type_letters & later_letters for type_letters in letters.values()
    )
    return has_long_spans or (bool(letters) and all(map(is_filler, unmatched)))


def _part_or_outside(label: str) -> Part:
    """Parse a label as `parse_label` does, but take a label of no scheme for `O`."""
    return parse_label(label) if PREFIXED.fullmatch(label) or label in ROLES else NO_PART


def find_spans(labels: Sequence[str], scheme: Scheme, *, strict: bool = False) -> list[Span]:
    """Find the spans of one sequence, in order.

    In the plain scheme, each word whose label is not `O` is a span. `strict` leaves out spans that
    break the scheme, as seqeval's strict mode does, with one difference: if a span in IOB1 begins
    with B although no span of its type ends directly before it, the whole span is left out, whereas
    seqeval keeps the words after the B.

    >>> find_spans(["I-PER", "I-PER", "B-PER", "O"], "IOB1")
    [Span(label='PER', start=0, end=2), Span(label='PER', start=2, end=3)]
    """
    if scheme == "plain":
        return [Span(label, i, i + 1) for i, label in enumerate(labels) if label != OUTSIDE]
    parts = [NO_PART, *map(parse_label, labels), NO_PART]
    spans: list[Span] = []
    start = 0
    for index, (before, part) in enumerate(pairwise(parts)):
        begins = _begins(before, part)
        # A span ends before the word `index` if another one or no span begins there.
        if before.role != "O" and (begins or part.role == "O"):
            spans.append(Span(before.type, start, index))
        if begins:
            start = index
    if strict:  # `parts` begins with NO_PART, so each slice begins one word before its span
        return [s for s in spans if _is_well_formed(parts[s.start : s.end + 1], scheme)]
    return spans


def _begins(before: Part, part: Part) -> bool:
    """Return whether a span begins with `part`.

    It does if the letter says so, or if no span of its type is open.
    """
    if part.role == "O":
        return False
    return part.role in ("B", "S") or before.role in ("O", "E", "S") or before.type != part.type


def _is_well_formed(parts: Sequence[Part], scheme: Scheme) -> bool:
    """Return whether a span begins and ends as the scheme requires.

    `parts[0]` is the parsed label before the span.
    """
    before, first, last = parts[0], parts[1], parts[-1]
    if scheme == "IOB1":
        return first.role != "B" or _follows(before, first)
    if scheme == "IOB2":
        return first.role == "B"
    return first.role == "S" or (first.role == "B" and last.role == "E")


def _follows(before: Part, part: Part) -> bool:
    """Return whether `before` leaves a span of the same type open."""
    return before.role in ("B", "I") and before.type == part.type


def count_illegal(labels: Sequence[str], scheme: Scheme) -> int:
    """Count the labels at which a sequence breaks its scheme.

    >>> count_illegal(["I-PER", "I-PER", "O"], "IOB2"), count_illegal(["B-PER", "O"], "BIOES")
    (1, 1)
    """
    if scheme == "plain":
        return 0
    parts = [NO_PART, *map(parse_label, labels), NO_PART]
    return sum(not is_legal(before, part, scheme) for before, part in pairwise(parts))


def is_legal(before: Part, part: Part, scheme: Scheme) -> bool:
    """Return whether a scheme allows `part` after `before`.

    `NO_PART` stands before the first word and after the last one.
    """
    if scheme in ("IOB1", "IOB2"):
        if part.role in ("E", "S"):
            return False
        # the role that needs a span of its type directly before it
        dependent_role = "B" if scheme == "IOB1" else "I"
        return part.role != dependent_role or _follows(before, part)
    if part.role in ("I", "E"):
        return _follows(before, part)
    return before.role not in ("B", "I")


def write_labels(spans: Iterable[Span], num_words: int, scheme: Scheme) -> list[str]:
    """Write spans, which are in order and do not overlap, as the labels of `num_words` words.

    >>> write_labels([Span("PER", 0, 2), Span("PER", 2, 3)], 4, "IOB1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    labels = [OUTSIDE] * num_words
    for span in spans:
        name = f"-{span.label}" if span.label and scheme != "plain" else span.label
        letters = _span_letters(span, labels, scheme)
        for index, letter in enumerate(letters, start=span.start):
            labels[index] = letter + name
    return labels


def _span_letters(span: Span, labels: Sequence[str], scheme: Scheme) -> str | list[str]:
    """Choose the letters of a span's words; `labels` holds the labels before the span."""
    size = span.end - span.start
    if scheme == "plain":
        return [""] * size
    letters = LETTERS[scheme]
    first, inner = letters[0], letters[1]
    if len(letters) == 2:
        # IOB1 writes B only directly behind another span of the same type.
        touches = span.start > 0 and labels[span.start - 1] != OUTSIDE
        is_same_type = touches and parse_label(labels[span.start - 1]).type == span.label
        return (first if scheme == "IOB2" or is_same_type else inner) + inner * (size - 1)
    return letters[3] if size == 1 else first + inner * (size - 2) + letters[2]


def convert_labels(labels: Sequence[str], scheme: Scheme, target: Scheme) -> list[str]:
    """Convert labels of a sequence to the scheme `target`.

    If `target` is the scheme that they have, a sequence that breaks the scheme becomes legal.

    >>> convert_labels(["I-PER", "I-PER", "O"], "IOB1", "BIOES")
    ['B-PER', 'E-PER', 'O']

    Raises:
        InputError: only one of the two schemes is plain, and not all labels are `O`.
    """
    # Labels that are all O are the same in each scheme.
    if scheme == target == "plain" or all(label == OUTSIDE for label in labels):
        return list(labels)
    if "plain" in (scheme, target):
        raise InputError(
            f"labels of the scheme {scheme} cannot be written as {target}: one of the two shows "
            "where spans begin, the other does not. Choose the column with "
            f"{option('label_column')}, or the scheme with {option('scheme')}."
        )
    return write_labels(find_spans(labels, scheme), len(labels), target)
