"""Documents → a question with known answers: which library does this paragraph document?

Three files of labelled paragraphs come out: few to learn from, few to choose the best weights
by, and many to score on. A module belongs to one of them only, so no text is scored whose
neighbours were learned from; and the modules to score on are no part of the corpus either.

The library's own name would answer the question, so every listed spelling of every name is
replaced, inside dotted paths and longer words too.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.demo.corpus import STANDARD_LIBRARY, ModuleText
from bertsmith.errors import InputError
from bertsmith.system.files import atomic_write

LABELS = {
    STANDARD_LIBRARY: "Python",
    "matplotlib": "Matplotlib",
    "networkx": "NetworkX",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "sklearn": "scikit-learn",
    "sympy": "SymPy",
    "torch": "PyTorch",
}
"""The libraries asked for, by package. All of them come with bertsmith's own dependencies."""

# Long names are unmistakable and are found inside other words (`mpl_toolkits`, `libtorch`).
NAMES = (
    *("matplotlib", "mplot", "networkx", "numpy", "pyplot", "python"),
    *("scikit", "scipy", "sklearn", "sympy", "torch"),
)
# Short ones only count where no letter stands beside them: `np.array`, but not `input`.
SHORT_NAMES = ("aten", "mpl", "np", "nx", "plt", "skl")
REPLACEMENT = "library"

_NAME = re.compile(
    "|".join(NAMES) + rf"|(?<![^\W\d_])(?:{'|'.join(SHORT_NAMES)})(?![^\W\d_])", re.IGNORECASE
)
_WORD = re.compile(r"[\w.-]+")

Part = Literal["train", "dev", "test"]
# Of a hundred modules, how many are scored on, and how many choose the best weights.
TEST_PERCENT = 20
DEV_PERCENT = 10
# A paragraph shorter than this often says nothing of its library; a longer one costs time.
MIN_WORDS, MAX_WORDS = 20, 80
# More from one module would be more of the same.
MAX_PER_MODULE = 10


@dataclass(frozen=True)
class QuestionSize:
    """Most paragraphs of each library in a file."""

    train: int = 25
    dev: int = 10
    test: int = 150


@dataclass(frozen=True)
class DemoQuestion:
    """The paragraphs that are learned from (one list per draw), chosen by, and scored on."""

    draws: tuple[tuple[Example, ...], ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]

    def label_counts(self) -> Counter[str | None]:
        return Counter(example.label for example in self.test)


def part_of(document: ModuleText) -> Part:
    """Return the part of a module's paragraphs, by a hash of its name."""
    digest = sha256(f"{document.library}/{document.module}".encode()).digest()
    percent = int.from_bytes(digest[:8], "big") % 100
    if percent < TEST_PERCENT:
        return "test"
    return "dev" if percent < TEST_PERCENT + DEV_PERCENT else "train"


def is_for_corpus(document: ModuleText) -> bool:
    """Return whether a module may be pre-trained on; those to score on may not."""
    return document.library not in LABELS or part_of(document) != "test"


def ask(documents: Iterable[ModuleText], size: QuestionSize, num_draws: int = 3) -> DemoQuestion:
    """Draw the question's paragraphs; the same documents always give the same ones.

    Each draw takes its own paragraphs to learn from, so that a score does not hang on which
    few were labelled.

    Raises:
        InputError: the installed packages do not document at least two of the libraries.
    """
    pools = _pools(documents)
    labels = [name for name in LABELS.values() if all(pools[part, name] for part in PARTS)]
    if len(labels) < 2:
        raise InputError(
            f"installed packages: {len(labels)} of the {len(LABELS)} libraries in question found "
            "with enough documentation. Install bertsmith with its dependencies, sources included."
        )
    return DemoQuestion(
        draws=tuple(_draw(pools, "train", labels, size.train, seed) for seed in range(num_draws)),
        dev=_draw(pools, "dev", labels, size.dev, seed=0),
        test=_draw(pools, "test", labels, size.test, seed=0),
    )


PARTS: tuple[Part, ...] = ("train", "dev", "test")


def _pools(documents: Iterable[ModuleText]) -> defaultdict[tuple[Part, str], list[str]]:
    """Collect the qualifying paragraphs by part and label, each once."""
    pools: defaultdict[tuple[Part, str], list[str]] = defaultdict(list)
    seen: set[str] = set()
    for document in documents:
        if document.library in LABELS:
            # Without their names, the paragraphs of two libraries may be the same.
            new = [text for text in dict.fromkeys(_nameless(document)) if text not in seen]
            pools[part_of(document), LABELS[document.library]] += new
            seen.update(new)
    return pools


def _nameless(document: ModuleText) -> list[str]:
    """Choose paragraphs evenly over a module, without names."""
    texts = [remove_names(paragraph) for paragraph in document.paragraphs]
    fitting = [text for text in texts if MIN_WORDS <= len(text.split()) <= MAX_WORDS]
    return fitting[:: max(1, len(fitting) // MAX_PER_MODULE)][:MAX_PER_MODULE]


def _draw(
    pools: defaultdict[tuple[Part, str], list[str]],
    part: Part,
    labels: Sequence[str],
    size: int,
    seed: int,
) -> tuple[Example, ...]:
    rng = np.random.default_rng((seed, PARTS.index(part)))
    drawn = [
        Example(pools[part, label][i], label=label)
        for label in labels
        for i in rng.permutation(len(pools[part, label]))[:size]
    ]
    return tuple(drawn[i] for i in rng.permutation(len(drawn)))


def remove_names(text: str) -> str:
    """Replace every name of a library; of a dotted path only its last part stays.

    >>> remove_names("Like numpy.linalg.norm, np.dot takes a torch-like Tensor from NumPy.")
    'Like norm, dot takes a library Tensor from library.'
    """
    return _WORD.sub(_without_name, text)


def _without_name(match: re.Match[str]) -> str:
    word = match[0]
    if not _NAME.search(word):
        return word
    path = word.rstrip(".-")
    _, dot, last = path.rpartition(".")
    kept = last if dot and last and not _NAME.search(last) else REPLACEMENT
    return kept + word[len(path) :]


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write a csv file with the columns `text` and `label`."""
    with atomic_write(path, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text", "label"])
        writer.writerows((example.text, example.label) for example in examples)


def write_documents(path: Path, documents: Iterable[ModuleText]) -> None:
    """Write a text file: one paragraph per line, an empty line between documents."""
    with atomic_write(path, "w") as file:
        for document in documents:
            file.write("\n".join(document.paragraphs) + "\n\n")
