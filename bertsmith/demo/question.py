"""A question with known answers, made from documents: which library does a paragraph document?

All paragraphs of a module are used either for training or for scoring, so that a scored paragraph
has no neighbours in the training data. Modules for scoring are left out of the corpus, too. Each
word that contains the name of a library is replaced, because it would answer the question.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.demo.corpus import STANDARD_LIBRARY, ModuleText
from bertsmith.errors import InputError

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
"""The libraries of the question: the label of each package. NumPy, PyTorch, SymPy and NetworkX are
installed with bertsmith's dependencies, the others with `bertsmith[demo]`."""
# A word is replaced as a whole. Long names are looked for inside other words, too (`mplot3d`,
# `libtorch`). Short names count only if no letter stands beside them: in `np.array` and
# `mpl_toolkits`, but not in `input`.
NAMES = (
    *("matplotlib", "mplot", "networkx", "numpy", "pyplot", "python"),
    *("scikit", "scipy", "sklearn", "sympy", "torch"),
)
SHORT_NAMES = ("aten", "mpl", "np", "nx", "plt", "skl")
NAME = re.compile(
    "|".join(NAMES) + rf"|(?<![^\W\d_])(?:{'|'.join(SHORT_NAMES)})(?![^\W\d_])", re.IGNORECASE
)
WORD = re.compile(r"[\w.-]*\w")
REPLACEMENT = "library"

TEST_EVERY = 5
"""Every fifth module of a library is for scoring."""
# A shorter paragraph often says nothing about its library; a longer one costs time.
MIN_WORDS, MAX_WORDS = 20, 80
MAX_PER_MODULE = 10
"""Maximum number of paragraphs from one module, since they are alike."""


def split_modules(
    documents: Iterable[ModuleText],
) -> tuple[list[ModuleText], list[ModuleText]]:
    """Divide documents, in their order, into those for training and those for scoring."""
    train_modules: list[ModuleText] = []
    test_modules: list[ModuleText] = []
    num_modules: Counter[str] = Counter()
    for document in documents:
        is_test = document.library in LABELS and num_modules[document.library] % TEST_EVERY == 0
        num_modules[document.library] += 1
        (test_modules if is_test else train_modules).append(document)
    return train_modules, test_modules


def collect_paragraphs(documents: Iterable[ModuleText], seen: set[str]) -> dict[str, list[str]]:
    """Collect by label the paragraphs whose length suits the question and that are not in `seen`.

    Of each module, at most `MAX_PER_MODULE` are taken. Names are replaced. The collected paragraphs
    are added to `seen`.
    """
    paragraphs: dict[str, list[str]] = {}
    for document in documents:
        if document.library in LABELS:
            texts = dict.fromkeys(map(remove_names, document.paragraphs))
            fitting = [
                text
                for text in texts
                if MIN_WORDS <= len(text.split()) <= MAX_WORDS and text not in seen
            ]
            # Every n-th paragraph, so that the chosen ones are spread over the module
            stride = max(1, len(fitting) // MAX_PER_MODULE)
            chosen = fitting[::stride][:MAX_PER_MODULE]
            paragraphs.setdefault(LABELS[document.library], []).extend(chosen)
            seen.update(chosen)  # without names, paragraphs of two libraries may be the same
    return paragraphs


def build_question(
    train_modules: Iterable[ModuleText], test_modules: Iterable[ModuleText]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Collect by label the paragraphs for training, and the paragraphs for scoring.

    Raises:
        InputError: there is too little documentation of all libraries, or of all but one.
    """
    # A paragraph that is in modules of both kinds is used for scoring, and not for training.
    seen = set[str]()
    test = collect_paragraphs(test_modules, seen)
    train = collect_paragraphs(train_modules, seen)
    labels = sorted(label for label in train if train[label] and test.get(label))
    if len(labels) < 2:
        raise InputError(
            f"installed packages: {len(labels)} of the {len(LABELS)} libraries that the demo "
            "asks about have enough documentation, and it needs two. Install bertsmith with its "
            "dependencies and their .py files, whose docstrings the demo reads."
        )
    return {label: train[label] for label in labels}, {label: test[label] for label in labels}


def draw_examples(
    paragraphs: dict[str, list[str]], counts: Sequence[int], seed: int = 0
) -> list[list[Example]]:
    """Draw disjoint sets of examples, one for each number in `counts`.

    A set has at most that number of paragraphs of each label.
    """
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0, *counts])
    sets: list[list[Example]] = [[] for _ in counts]
    for label, texts in paragraphs.items():
        order = rng.permutation(len(texts))
        for number, examples in enumerate(sets):
            chosen = order[ends[number] : ends[number + 1]]
            examples += [Example(texts[i], label=label) for i in chosen]
    return [[examples[i] for i in rng.permutation(len(examples))] for examples in sets]


def remove_names(text: str) -> str:
    """Replace each word that contains the name of a library.

    >>> remove_names("Like numpy.linalg.norm, np.dot takes a torch-like Tensor from NumPy.")
    'Like library, library takes a library Tensor from library.'
    """
    return WORD.sub(lambda word: REPLACEMENT if NAME.search(word[0]) else word[0], text)
