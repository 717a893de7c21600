"""Documentation of the installed Python packages as documents of plain prose.

Docstrings are read by `ast`, so no module is imported or run. Each module is one document, of the
paragraphs that consist of sentences; of equal paragraphs, only the first is kept. A language model
learns most from sentences, and other parts of docstrings would reveal the library by their layout.
"""

import ast
import os
import re
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

MAX_CHARS = 8_000_000
"""Maximum number of characters of all libraries."""
MAX_CHARS_OF_LIBRARY = 800_000
"""Number of characters after which no further module of a library is read."""
ENOUGH_CHARS = 60_000
"""Number of characters to read from each library of the question, even if the time is over."""

STANDARD_LIBRARY = "standard library"
# Installed packages may live inside the standard library's folder.
OTHER_FOLDERS = {"site-packages", "dist-packages", "pydoc_data"}
SKIPPED_FOLDERS = {
    **dict.fromkeys(("test", "tests", "testing", "idle_test"), "file of tests"),
    **dict.fromkeys(
        ("_vendor", "vendor", "vendored", "_vendored", "externals", "extern"),
        "file of a vendored copy",
    ),
}
# For source code that is nested too deep, the parser raises RecursionError or MemoryError.
UNREADABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError)

MARKUP = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r":math:`[^`]*(?:\\[a-zA-Z]+|\$)[^`]*`", ""),  # formulas; what is left are names
        (r":[a-z][\w:+-]*:`([^`<]+?)\s*<[^<>`]*>`", r"\1"),  # :class:`rows <a.Row>`
        (r":[a-z][\w:+-]*:`~(?:[\w.]*\.)?([^`]*)`", r"\1"),  # :func:`~os.path.join`
        (r":[a-z][\w:+-]*:`!?([^`]*)`", r"\1"),
        (r"`([^`<]*?)\s*<[^>`]*>`_{0,2}", r"\1"),  # `text <address>`_
        (r"(?:<?\b(?:https?|ftp)://|\bwww\.)[^\s)]*[^\s).,;:]", ""),
        (r"\s*\[[\w#*]+\]_", ""),  # footnotes
        (r"(?<![\w*])\*{1,2}(\w[^*\n]*?)\*{1,2}(?![\w*])", r"\1"),  # *emphasis*
    )
)
ITEM = re.compile(
    r"(?:[-*+•]|\(?\d{1,2}[.)])\s+"  # a bullet or a number
    r"|:(?:param|return|raise|type|rtype|ivar|var|arg)s?\b[^:]*:\s*"  # :param size: …
    r"|[*\w.]+(?:,\s*[*\w.]+)*\s*\([^()]*(?:\([^()]*\)[^()]*)*\):\s+"  # size (int): …
)
UNDERLINE = re.compile(r"([-=~^\"'`#*+.])\1{2,}$")
WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
NO_PROSE = re.compile(
    r"^\.\.(?:\s|$)|>>>|copyright|licen[cs]e|author|maintainer|written by|contributed by"
    r"|\S@\S+\.\w",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ModuleText:
    """The prose of one module.

    `library` is its top-level package, and `module` the path of its file inside the package.
    """

    library: str
    module: str
    paragraphs: tuple[str, ...]

    @property
    def num_chars(self) -> int:
        """Number of characters of the paragraphs, without line ends."""
        return sum(map(len, self.paragraphs))


@dataclass
class Documentation:
    """Documents, and by reason the number of files and paragraphs that were left out."""

    documents: list[ModuleText] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    chars_by_library: Counter[str] = field(default_factory=Counter)

    @property
    def num_chars(self) -> int:
        return self.chars_by_library.total()


def installed_libraries() -> dict[str, Path]:
    """Return the libraries of this Python: by name, the folder of each or its only file."""
    paths = sysconfig.get_paths()
    libraries = {STANDARD_LIBRARY: Path(paths["stdlib"]).resolve()}
    for site in dict.fromkeys(Path(paths[name]).resolve() for name in ("purelib", "platlib")):
        for top in sorted(site.iterdir()) if site.is_dir() else ():
            is_source = top.is_dir() or top.suffix == ".py"
            if is_source and top.stem.isidentifier() and top.stem != "__pycache__":
                libraries.setdefault(top.stem, top)
    return libraries


def read_documentation(
    libraries: Mapping[str, Path], first: Sequence[str], seconds: float
) -> Documentation:
    """Read the prose of libraries in about `seconds`, so that no library dominates.

    The next module is taken from the library with the least text so far; the libraries in `first`
    are read before all others. The modules of a library are read in the order of a hash of their
    paths, so that all parts of the library have the same chance if time runs out. The same files
    give the same result, unless time runs out.
    """
    ends_at = time.monotonic() + seconds
    documentation = Documentation()
    seen = set[str]()
    chars = documentation.chars_by_library
    modules = {name: _list_modules(top, documentation.skipped) for name, top in libraries.items()}
    while modules:
        name = min(modules, key=lambda name: (name not in first, chars[name]))
        is_enough = name not in first or chars[name] >= ENOUGH_CHARS
        reason = None
        if chars[name] >= MAX_CHARS_OF_LIBRARY or documentation.num_chars >= MAX_CHARS:
            reason = "file over the limit"
        elif is_enough and time.monotonic() > ends_at:
            reason = "file left out for lack of time"
        if reason is not None:
            documentation.skipped[reason] += len(modules.pop(name))
        elif modules[name]:
            module, path = modules[name].pop()
            _add_module(documentation, seen, name, module, path)
        else:
            del modules[name]
    return documentation


def _add_module(
    documentation: Documentation, seen: set[str], library: str, module: str, path: Path
) -> None:
    """Add the paragraphs of a module whose words are not in `seen` as one document."""
    try:
        texts = read_docstrings(path)
    except UNREADABLE:
        documentation.skipped["unreadable file"] += 1
        return
    new_paragraphs: list[str] = []
    for text in texts:
        for paragraph in prose_paragraphs(text):
            # Paragraphs with the same words count as equal, whatever their case and punctuation.
            words = " ".join(WORD.findall(paragraph.lower()))
            if words in seen:
                documentation.skipped["paragraph seen before"] += 1
            else:
                seen.add(words)
                new_paragraphs.append(paragraph)
    if new_paragraphs:
        document = ModuleText(library, module, tuple(new_paragraphs))
        documentation.documents.append(document)
        documentation.chars_by_library[library] += document.num_chars


def _list_modules(top: Path, skipped: Counter[str]) -> list[tuple[str, Path]]:
    """List the source files of a library as (path inside the library, path), sorted by a hash."""
    if top.is_file():
        return [(top.name, top)]
    modules = []
    for folder, folders, files in os.walk(top):
        names = Path(folder).relative_to(top).parts
        if OTHER_FOLDERS.intersection(names[:1]):
            folders.clear()
            continue
        skips = [SKIPPED_FOLDERS[name] for name in names if name in SKIPPED_FOLDERS]
        for file in files:
            if not file.endswith(".py"):
                continue
            if skips:
                skipped[skips[0]] += 1
            elif file.startswith("test_") or file == "conftest.py":
                skipped["file of tests"] += 1
            else:
                modules.append(("/".join((*names, file)), Path(folder, file)))
    return sorted(modules, key=lambda each: sha256(each[0].encode()).digest())


def read_docstrings(path: Path) -> list[str]:
    """Read the docstrings of a source file in order: module, classes, functions.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: this Python cannot parse the file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's source
        return list(_docstrings(ast.parse(path.read_bytes())))


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings below a node.

    Only statements are walked: expressions, the larger part of a tree, hold no docstrings.
    """
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node) or ""
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


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Group lines into blocks.

    A block ends at an empty line, an underline, a change of indentation, or the next list item.
    """
    block: list[str] = []
    indent = 0
    is_after_item = False  # whether the line before began an item
    for line in lines:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        item = ITEM.match(text)
        is_underline = UNDERLINE.match(text) is not None
        if not text or item or is_underline or (depth != indent and not is_after_item):
            yield block
            block = []
        if is_after_item or not block:
            # The lines of an item after its first line may have another indentation.
            indent = depth
        is_after_item = item is not None
        if text and not is_underline:
            block.append(text[item.end() :] if item else text)
    yield block


def strip_markup(text: str) -> str:
    """Strip reStructuredText: roles, quotes, links, footnotes, addresses, formulas.

    >>> strip_markup("See :func:`~os.path.join` and ``x``, as in [1]_ (https://example.org).")
    'See join and x, as in ().'
    """
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.replace("`", "").replace("::", ":").split())


def is_prose(paragraph: str) -> bool:
    """Return whether a paragraph is prose, and not about people, licenses or copyright.

    Prose starts with a letter, ends as a sentence does, and has at least eight words; at least
    three quarters of its characters are words and the spaces between them.
    """
    words = WORD.findall(paragraph)
    return (
        len(words) >= 8
        and paragraph[0].isalpha()
        and paragraph[-1] in ".!?:"
        and sum(map(len, words)) + len(words) >= 0.75 * len(paragraph)
        and paragraph.isprintable()  # a docstring may hold NUL, or half of a surrogate pair
        and not NO_PROSE.search(paragraph)
    )
