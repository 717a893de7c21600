"""Remarks on labels that are probably a mistake, such as one class under two names.

Each function looks for one such mistake. It returns the text of a remark, which the caller shows
while the work goes on, or None if there is nothing to remark.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from bertsmith.data.examples import Example
from bertsmith.data.json_rows import list_names
from bertsmith.data.labels import NUMBER_TEXT
from bertsmith.errors import option
from bertsmith.system.counts import count_noun

LIST_TEXT = re.compile(r"\[.*\]", re.DOTALL)
LABEL_SEPARATORS = ",;|"
"""Separators that may be between several labels of a text."""
MISSING_VALUES = {
    **dict.fromkeys(("nan", "NaN", "<NA>"), "In tables of pandas"),
    "#N/A": "In tables of Excel",
}
"""Texts that programs write for a missing value, and the programs, as words of a sentence."""
MAX_REMARK_CHARACTERS = 40
"""Maximum number of characters of a text that a remark shows."""


def mixed_labels(examples: Sequence[Example]) -> str | None:
    """Describe a mix of numbers and names among the labels; None if there is no mix."""
    counts = Counter(example.label for example in examples if example.label)
    numbers = [name for name in counts if NUMBER_TEXT.fullmatch(name)]
    words = [name for name in counts if name not in numbers]
    if not numbers or not words:
        return None
    num_numbers = sum(counts[name] for name in numbers)
    number_count = count_noun(num_numbers, "label is a number", "labels are numbers")
    name_count = count_noun(counts.total() - num_numbers, "is a name", "are names")
    return (
        f"{number_count} ({list_names(numbers)}) and {name_count} ({list_names(words)}); each is "
        "a class of its own"
    )


def contradictions(examples: Sequence[Example]) -> str | None:
    """Describe texts that have different labels in different rows; None if there are none."""
    labels: dict[object, dict[str, None]] = {}
    for example in examples:
        labels.setdefault(example.content, {})[example.label or ""] = None
    contradictory = [(content, names) for content, names in labels.items() if len(names) > 1]
    if not contradictory:
        return None
    first_content, first_labels = contradictory[0]
    first = next(example for example in examples if example.content == first_content)
    text = " ".join(first.text.split())
    shown = text if len(text) <= MAX_REMARK_CHARACTERS else f"{text[:MAX_REMARK_CHARACTERS]}…"
    count = count_noun(len(contradictory), "text has", "texts have")
    return (
        f"{count} different labels in different rows, such as {shown!r} "
        f"({list_names(list(first_labels))}), so that no model is right about all of them"
    )


def labels_seen_once(examples: Sequence[Example]) -> str | None:
    """Describe the labels that only one text has; None if there are none."""
    counts = Counter(example.label for example in examples if example.label)
    once = [name for name, count in counts.items() if count == 1]
    if not once:
        return None
    verb = "is" if len(once) == 1 else "are"
    return (
        f"{len(once):,} of {len(counts):,} labels {verb} seen once ({list_names(once)}); give more "
        "texts with each label"
    )


def no_label(names: Sequence[str]) -> str | None:
    """Describe a class that seems to stand for a missing label; else None.

    Such a class is one of `MISSING_VALUES`; or, as in data sets such as SNLI, `-` beside two other
    names or more, or -1 beside 0, 1 and 2.

    >>> no_label(["-", "entailment", "neutral"])[:45]
    "the label '-' is a class of its own. In SNLI "
    """
    source = "In SNLI and others"
    if missing := [name for name in names if name in MISSING_VALUES]:
        name, source = missing[0], MISSING_VALUES[missing[0]]
    elif "-" in names and len(names) > 2:
        name = "-"
    elif "-1" in names and {"0", "1", "2"} <= set(names):
        name = "-1"
    else:
        return None
    return (
        f"the label '{name}' is a class of its own. {source} it means that a text has no label; "
        f"then leave out these rows, or make their label empty and pass "
        f"{option('skip_incomplete', True)}"
    )


def several_in_one(names: Sequence[str]) -> str | None:
    """Describe classes that each seem to be several labels, such as `toxic,insult`; else None.

    There are two such cases. Either at least half of the classes are lists written as text, as
    pandas writes lists to a file. Or at least half of the classes hold a separator, and more than
    half of the parts between separators occur in several classes.
    """
    lists = [name for name in names if LIST_TEXT.fullmatch(name)]
    if 2 * len(lists) >= len(names) > 0:
        return (
            f"{count_noun(len(lists), 'label is a list', 'labels are lists')} written as text, "
            f"such as {lists[0]}, and each is a class of its own. Where a text may have several "
            f"labels, write them as in sport,news, and pass {option('multi_label', True)}"
        )
    for separator in LABEL_SEPARATORS:
        label_sets = [{label.strip() for label in name.split(separator)} for name in names]
        with_separator = [name for name in names if separator in name]
        num_classes = Counter(label for labels in label_sets for label in labels)  # with each label
        num_recurring = sum(count > 1 for count in num_classes.values())
        if 2 * len(with_separator) >= len(names) and 2 * num_recurring > len(num_classes) > 1:
            advice = option("multi_label", True)
            if separator != ",":
                advice += f" {option('label_separator', separator)}"
            return (
                f"each of {len(with_separator):,} combinations such as '{with_separator[0]}' is a "
                f"class of its own. Where a text may have several labels, pass {advice}"
            )
    return None


def look_alike(names: Sequence[str]) -> str | None:
    """Describe two classes whose names look the same; None if all look different.

    Such names differ only in case, in characters without a width, or in how Unicode composes them.

    >>> look_alike(["Pos", "neg", "pos"])
    "the labels 'Pos' and 'pos' look alike, and are classes of their own"
    """
    first_names: dict[str, str] = {}
    for name in names:
        composed = unicodedata.normalize("NFKC", name)
        # Cf: format characters, which have no width
        visible = "".join(char for char in composed if unicodedata.category(char) != "Cf")
        first = first_names.setdefault(visible.lower(), name)
        if first == name:
            continue
        # If more than case differs, show the difference by escapes.
        show = repr if first.lower() == name.lower() else ascii
        return f"the labels {show(first)} and {show(name)} look alike, and are classes of their own"
    return None


NAME_MARKS = (
    (
        re.compile(r"LABEL_\d+"),
        "LABEL_N is what transformers calls class N of a model whose classes have no names; write "
        "the name of the class, or its number",
    ),
    (
        re.compile(r"__label__.+"),
        "fastText puts __label__ before each label; remove it, and a probability behind the label",
    ),
)
"""Names that other programs give to labels, and what to do about them."""


def other_names(right: Sequence[str], predicted: Sequence[str]) -> str | None:
    """Describe predicted labels if none of them occurs among the right ones; else None.

    >>> other_names(["yes", "no"], ["Yes", "No"])
    "'Yes', 'No' beside 'yes', 'no'. They differ in upper and lower case alone"
    """
    if not right or not predicted or set(right) & set(predicted):
        return None
    shown = f"{list_names(predicted)} beside {list_names(right)}"
    for mark, advice in NAME_MARKS:
        if all(map(mark.fullmatch, predicted)) != all(map(mark.fullmatch, right)):
            return f"{shown}. {advice}"
    if {name.casefold() for name in right} & {name.casefold() for name in predicted}:
        return f"{shown}. They differ in upper and lower case alone"
    return f"{shown}. Check that both files name the classes in the same way"
