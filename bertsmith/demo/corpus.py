"""Documentation of the installed Python packages as documents of plain prose.

Docstrings are read by `ast`: nothing is imported or run. A module is one document, as is each topic
of the language reference that `pydoc` shows. Only paragraphs of sentences are kept, each once: a
language model learns most from those, and the layout of a docstring would give its library away.
"""

import ast
import math
import re
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from bertsmith.system.terminal import Say

ENOUGH_CHARS = 100_000
"""Characters read of a library that the question is about, however long that takes."""

STANDARD_LIBRARY = "standard library"
LANGUAGE_REFERENCE = "language reference"

# Installed packages may live inside the standard library's folder; the reference is read apart.
_NOT_OF_STANDARD_LIBRARY = {"site-packages", "dist-packages", "pydoc_data"}
_SKIPPED_FOLDERS = {
    "file of tests": {"test", "tests", "testing", "idle_test"},
    "file of a vendored copy": {
        "_vendor",
        "vendor",
        "vendored",
        "_vendored",
        "externals",
        "extern",
    },
}
# For source that is nested too deep, the parser raises one of the last two.
_UNREADABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError)

_ROLE = re.compile(r":[a-z][a-z:+-]*:`([^`]*)`")
_ROLE_TARGET = re.compile(r"\s*<[^<>]*>$")
_FORMULA = re.compile(r"\\[a-zA-Z]+|\$")
_LINK = re.compile(r"`([^`<]*?)\s*<[^>`]*>`_{0,2}")
_URL = re.compile(r"(?:<?\b(?:https?|ftp)://|\bwww\.)[^\s)]*[^\s).,;:]")
_FOOTNOTE = re.compile(r"\s*\[[\w#*]+\]_")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(\w[^*\n]*?)\*{1,2}(?![\w*])")
_ITEM = re.compile(
    r"(?:[-*+•]|\(?\d{1,2}[.)])\s+"  # a bullet or a number
    r"|:(?:param|return|raise|type|rtype|ivar|var|arg)s?\b[^:]*:\s*"  # :param size: …
    r"|[*\w.]+(?:,\s*[*\w.]+)*\s*\([^()]*(?:\([^()]*\)[^()]*)*\):\s+"  # size (int): …
)
_DIRECTIVE = re.compile(r"\.\.(?:\s|$)")
_UNDERLINE = re.compile(r"([-=~^\"'`#*+.])\1{2,}$")
_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
_ABOUT_PEOPLE = re.compile(
    r"copyright|licen[cs]e|author|maintainer|written by|contributed by|\S@\S+\.\w", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ModuleText:
    """The prose of one module: `library` is its top-level package, `module` its path there."""

    library: str
    module: str
    paragraphs: tuple[str, ...]

    @property
    def num_chars(self) -> int:
        """Characters of prose, without the line ends."""
        return sum(map(len, self.paragraphs))


@dataclass(frozen=True)
class Documentation:
    """Documents in a fixed order, and how many files or paragraphs were `skipped`, by reason."""

    documents: tuple[ModuleText, ...]
    skipped: Counter[str]

    @property
    def num_chars(self) -> int:
        return sum(document.num_chars for document in self.documents)

    def chars_by_library(self) -> dict[str, int]:
        """Return characters of prose by library, the largest first."""
        counts: Counter[str] = Counter()
        for document in self.documents:
            counts[document.library] += document.num_chars
        return dict(counts.most_common())


@dataclass(frozen=True)
class Installation:
    """Source folders of a Python: the standard library and installed packages."""

    standard_library: Path
    site_packages: tuple[Path, ...]

    @classmethod
    def current(cls) -> "Installation":
        """Return the Python that runs this code, with its distribution's package folders."""
        paths = sysconfig.get_paths()
        found = [Path(paths["purelib"]), Path(paths["platlib"])]
        unique = dict.fromkeys(path.resolve() for path in found if path.is_dir())
        return cls(Path(paths["stdlib"]).resolve(), tuple(unique))

    def libraries(self) -> dict[str, Path]:
        """Return each library's folder or only file by name, the standard library first."""
        found = {STANDARD_LIBRARY: self.standard_library}
        for site in self.site_packages:
            for top in sorted(site.iterdir()):
                is_source = top.is_dir() or top.suffix == ".py"
                if is_source and top.stem.isidentifier() and top.stem != "__pycache__":
                    found.setdefault(top.stem, top)
        return found


@dataclass
class _Collector:
    """Documents under way: what was seen, what was skipped, and how much room is left."""

    room: int
    ends_at: float = math.inf
    documents: list[ModuleText] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)

    def add(self, library: str, module: str, texts: Iterable[str]) -> int:
        """Keep the new paragraphs of `texts` as one document; returns its characters."""
        paragraphs = [p for text in texts for p in prose_paragraphs(text) if self._is_new(p)]
        if not paragraphs:
            return 0
        document = ModuleText(library, module, tuple(paragraphs))
        self.documents.append(document)
        self.room -= document.num_chars
        return document.num_chars

    def _is_new(self, paragraph: str) -> bool:
        key = " ".join(_WORD.findall(paragraph.lower()))
        if key in self.seen:
            self.skipped["paragraph seen before"] += 1
            return False
        self.seen.add(key)
        return True


def read_documentation(
    installation: Installation,
    first: Sequence[str] = (),
    *,
    max_chars_per_library: int = 1_000_000,
    max_chars: int = 12_000_000,
    seconds: float | None = None,
    say: Say = lambda line: None,
) -> Documentation:
    """Read the prose of an installation, bounded so that no package dominates.

    Libraries named in `first` come before the others, which follow by name until `max_chars`
    is reached. Within a library, modules are taken in the order of a hash of their path, so
    that a library cut at `max_chars_per_library` is still represented in its whole breadth.
    The same files always give the same result, unless it takes more than `seconds`, of which each
    library in `first` has a part: then modules are left out. `say` is told of each of those.
    """
    began = time.monotonic()
    libraries = installation.libraries()
    names = [name for name in first if name in libraries]
    names += [name for name in libraries if name not in names]
    collector = _Collector(max_chars)
    num_first = sum(name in libraries for name in first)
    for number, name in enumerate(names, start=1):
        if number <= num_first:
            say(f"Reading {name}, {number} of {num_first}.")
        share = 1.0 if number > num_first else number / num_first
        collector.ends_at = math.inf if seconds is None else began + share * seconds
        enough = ENOUGH_CHARS if number <= num_first else 0
        _read_library(collector, name, libraries[name], max_chars_per_library, enough)
        if name == STANDARD_LIBRARY:
            _read_language_reference(collector, installation.standard_library / "pydoc_data")
    return Documentation(tuple(collector.documents), collector.skipped)


def _read_library(
    collector: _Collector, library: str, top: Path, max_chars: int, enough: int
) -> None:
    room = least_room = min(max_chars, collector.room)
    least_room -= enough
    if room <= 0:
        collector.skipped["package over the limit"] += 1
        return
    files = source_files(top)
    for module in sorted(files, key=lambda name: sha256(name.encode()).digest()):
        reason = _reason_to_skip(Path(module)) or ("file over the limit" if room <= 0 else None)
        if reason is None and room <= least_room and time.monotonic() > collector.ends_at:
            reason = "file left out for want of time"
        if reason:
            collector.skipped[reason] += 1
            continue
        try:
            room -= collector.add(library, module, read_docstrings(files[module]))
        except _UNREADABLE:
            collector.skipped["unreadable file"] += 1


def source_files(top: Path) -> dict[str, Path]:
    """Find a library's source files by their path below it, without other libraries inside it."""
    if top.is_file():
        return {top.name: top}
    modules = {path.relative_to(top): path for path in top.rglob("*.py")}
    return {
        module.as_posix(): path
        for module, path in modules.items()
        if module.parts[0] not in _NOT_OF_STANDARD_LIBRARY
    }


def _reason_to_skip(module: Path) -> str | None:
    folders = set(module.parts[:-1])
    for reason, names in _SKIPPED_FOLDERS.items():
        if folders & names:
            return reason
    is_test = module.stem.startswith("test_") or module.stem == "conftest"
    return "file of tests" if is_test else None


def _read_language_reference(collector: _Collector, folder: Path) -> None:
    for path in sorted(folder.glob("*.py")):
        try:
            topics = read_strings(path)
        except _UNREADABLE:
            collector.skipped["unreadable file"] += 1
            continue
        for topic, text in sorted(topics.items()):
            module = f"pydoc_data/{path.name}#{topic}"
            collector.add(LANGUAGE_REFERENCE, module, [text.replace('"', "`")])


def read_docstrings(path: Path) -> list[str]:
    """Read the docstrings of a source file in order: module, classes, functions.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: not Python that this version reads.
    """
    return list(_docstrings(_parse(path)))


def read_strings(path: Path) -> dict[str, str]:
    """Read the string tables, `{"name": "text", ...}`, that a file assigns."""
    strings: dict[str, str] = {}
    for node in _parse(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            table = ast.literal_eval(node.value)
            strings |= {k: v for k, v in table.items() if isinstance(k, str) and isinstance(v, str)}
    return strings


def _parse(path: Path) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's source
        return ast.parse(path.read_bytes())


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Walk statements only: docstrings never hide in expressions, which are most of a tree."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield text
    for block in ("body", "handlers", "orelse", "finalbody"):
        children = getattr(node, block, [])
        for child in children if isinstance(children, list) else []:
            yield from _docstrings(child)


def prose_paragraphs(docstring: str) -> list[str]:
    """List the paragraphs of a docstring that are prose, each as one line without markup.

    >>> prose_paragraphs("Scale it.\\n\\nEach :class:`~a.Row` is divided by the ``norm`` that\\n"
    ...                  "it has, unless that is 0.\\n\\n>>> scale(2)\\n1.0")
    ['Each Row is divided by the norm that it has, unless that is 0.']
    """
    paragraphs = (strip_markup(" ".join(lines)) for lines in _blocks(docstring.splitlines()))
    return [paragraph for paragraph in paragraphs if is_prose(paragraph)]


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Group lines between empty lines, of one indentation, or of one item."""
    block: list[str] = []
    indent, hanging = 0, False
    for line in lines:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        item = _ITEM.match(text)
        if not text or item or _UNDERLINE.match(text) or (depth != indent and not hanging):
            yield block
            block = []
        if hanging or not block:
            # The second line of an item sets the depth of those that follow it.
            indent, hanging = depth, item is not None and not hanging
        if text and not _UNDERLINE.match(text):
            block.append(text[item.end() :] if item else text)
    yield block


def strip_markup(text: str) -> str:
    """Strip reStructuredText: roles, quotes, links, footnotes, addresses, formulas.

    >>> strip_markup("See :func:`~os.path.join` and ``x``, as in [1]_ (https://example.org).")
    'See join and x, as in ().'
    """
    text = _ROLE.sub(_role_text, text)
    text = _LINK.sub(r"\1", text)
    text = _URL.sub("", text)
    text = _FOOTNOTE.sub("", text)
    text = _EMPHASIS.sub(r"\1", text).replace("`", "").replace("::", ":")
    return " ".join(text.split())


def _role_text(match: re.Match[str]) -> str:
    target = match[1]
    if match[0].startswith(":math:"):
        return "" if _FORMULA.search(target) else target
    shown = _ROLE_TARGET.sub("", target)
    return shown[1:].rpartition(".")[2] if shown.startswith("~") else shown.lstrip("!")


def is_prose(paragraph: str) -> bool:
    """Return whether a paragraph is prose, and not about people or licences.

    It starts with a letter, ends as a sentence does, has eight words, and three quarters
    of its characters are words and the spaces between them.
    """
    words = _WORD.findall(paragraph)
    return (
        len(words) >= 8
        and paragraph[0].isalpha()
        and paragraph[-1] in ".!?:"
        and sum(map(len, words)) + len(words) >= 0.75 * len(paragraph)
        and paragraph.isprintable()  # a docstring may hold NUL, or half of a surrogate pair
        and not _DIRECTIVE.match(paragraph)
        and ">>>" not in paragraph
        and not _ABOUT_PEOPLE.search(paragraph)
    )
