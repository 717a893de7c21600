"""Count what makes the code hard to read.

`python tools/house.py` prints the counts, and exits with 1 if one is over its limit; `--list COUNT`
lists the cases of one count. Only things that mislead a reader have a limit. Sizes have none: they
are printed beside those of the last commit, since a file holds one idea, short or long.
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

HERE = Path(__file__).resolve().parents[1]
PACKAGE = "bertsmith"
OUTSIDE = ("benchmarks", "tools")  # folders of code beside the package; sizes alone are counted

LIMITS: dict[str, float] = {
    "match= in tests": 14,
    "calls of Trainer": 1,
    "calls of vars(x)": 0,
    "circles of imports": 0,
    "classes with over 16 public methods": 2,
    "dataclasses with a device": 0,
    "flags in messages": 0,
    "imports for types alone": 0,
    "imports inside functions": 0,
    "indirect docstrings": 0,
    "modules with over 12 public names": 0,
    "names with several homes": 0,
    "private words in docs": 0,
    "root modules": 4,
    "settings replaced": 4,
    "signatures with over 9 parameters": 3,
    "test files with one name": 0,
}
"""The most cases of each thing that misleads a reader; `find_all` counts them. Names with several
homes, for example, are public names that several modules define."""
VAGUE_NAMES = ("found", "given", "known", "place")
"""Names that are counted, since they say nothing about the value."""
LONG_FUNCTION = 60  # lines

COMMAND_NAMES = ("main", "parse", "Settings")  # what each file of commands/ must define
# Tokens that are no code: line breaks and indentation.
NOT_CODE = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
# First words of docstrings that do not name their subject.
INDIRECT = re.compile(r"(What|The same|How|Where|With|Of|As|Everything|Whoever|Whose|Who)\b")
PRIVATE_WORDS = re.compile(
    r"\b(welcome|yardstick|learnt|tally|lessons?|team|waves|dismiss|farewell|strangers?|fates?)\b",
    re.IGNORECASE,
)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![a-z=-])")
# A command that a message quotes; its flags are spelled as on the command line in any case.
A_COMMAND = re.compile(r"'[^']*bertsmith [^']*'|`[^`]*`")
NAMES_FLAGS = ("commands", "demo", "errors")  # rooms whose messages are read as flags alone
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *FUNCTIONS)


class Module:
    """A source file: its syntax tree, room, code tokens and documentation."""

    def __init__(self, path: str, source: str) -> None:
        parts = Path(path).with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")
        self.room = parts[1] if len(parts) > 2 and parts[0] == PACKAGE else parts[0]
        self.tree = ast.parse(source)
        self.nodes = list(ast.walk(self.tree))
        docs = [doc for node in self.nodes if (doc := docstring(node))]
        doc_lines = {line for doc in docs for line in range(doc.lineno, (doc.end_lineno or 0) + 1)}
        self.docs = [str(doc.value) for doc in docs]
        self.tokens = 0
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                self.docs.append(token.string)
            elif token.type not in NOT_CODE and token.start[0] not in doc_lines:
                self.tokens += 1

    def imports(self, names: set[str]) -> Iterator[tuple[str, ast.stmt]]:
        """Yield each module of `names` that is imported, with the statement."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node) for alias in node.names if alias.name in names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                # `from a import b` imports the module a.b if there is one, else the module a.
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                for target in {name if name in names else node.module for name in inner} & names:
                    yield target, node

    def calls(self, name: str) -> list[ast.Call]:
        """List the calls of a plain name."""
        return [
            node
            for node in self.nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == name
        ]

    def public_names(self) -> list[str]:
        """List the public classes and functions at the top of the file, overloads once."""
        names = [node.name for node in self.tree.body if isinstance(node, DEFINITIONS)]
        return list(dict.fromkeys(name for name in names if not name.startswith("_")))


def docstring(node: ast.AST) -> ast.Constant | None:
    """Return the constant that documents a module, class or function."""
    if isinstance(node, (ast.Module, *DEFINITIONS)) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return first.value if isinstance(first.value.value, str) else None
    return None


def is_bound_name(node: ast.AST) -> TypeGuard[ast.Name]:
    """Return whether a node gives a value to a plain name."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" ".join(error.args[1])]
    return []


def find_imports(modules: list[Module]) -> dict[str, list[str]]:
    """Find circles of imports, and imports inside functions or for types alone."""
    findings: dict[str, list[str]] = defaultdict(list)
    graph: dict[str, set[str]] = {module.name: set() for module in modules}
    for module in modules:
        functions = [node for node in module.nodes if isinstance(node, FUNCTIONS)]
        guards = [
            node
            for node in module.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        ]
        inside = {id(node) for function in functions for node in ast.walk(function)}
        typing = {id(node) for guard in guards for node in ast.walk(guard)}
        for target, statement in module.imports(set(graph)):
            graph[module.name].add(target)
            if id(statement) in inside:
                findings["imports inside functions"].append(f"{module.name}: {target}")
            # The facade's names are lazy: their imports are for type checkers.
            if id(statement) in typing and module.name != PACKAGE:
                findings["imports for types alone"].append(f"{module.name}: {target}")
    findings["circles of imports"] = find_circle(graph)
    return findings


def find_names(modules: list[Module]) -> dict[str, list[str]]:
    """Find names with several definitions, and modules, classes and signatures with many names."""
    findings: dict[str, list[str]] = defaultdict(list)
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        names = module.public_names()
        if len(names) > 12:
            findings["modules with over 12 public names"].append(f"{module.name} ({len(names)})")
        for name in names:
            if module.room != "commands" or name not in COMMAND_NAMES:
                homes[name].append(module.name)
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                methods = [part.name for part in node.body if isinstance(part, FUNCTIONS)]
                if len([name for name in methods if not name.startswith("_")]) > 16:
                    findings["classes with over 16 public methods"].append(
                        f"{module.name}.{node.name}"
                    )
            elif isinstance(node, FUNCTIONS):
                arguments = node.args
                names = [
                    arg.arg
                    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                ]
                if len([name for name in names if name not in ("self", "cls")]) > 9:
                    findings["signatures with over 9 parameters"].append(
                        f"{module.name}.{node.name}"
                    )
    findings["names with several homes"] = [
        f"{name}: {' '.join(places)}" for name, places in homes.items() if len(places) > 1
    ]
    return findings


def find_flags(modules: list[Module]) -> dict[str, list[str]]:
    """Find flags in messages, where `option(...)` lets Python and JSON spell them, too."""
    findings: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        if module.room in NAMES_FLAGS or module.name == f"{PACKAGE}.cli":
            continue
        documents = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
        for node in module.nodes:
            if id(node) in documents:
                continue
            if isinstance(node, ast.JoinedStr):
                text = ast.unparse(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if FLAG.search(A_COMMAND.sub("", text)):
                findings["flags in messages"].append(f"{module.name}:{node.lineno}")
    return findings


def find_settings(modules: list[Module]) -> dict[str, list[str]]:
    """Find settings that are declared, resolved or assembled in a second place."""
    findings: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and "dataclass" in str(
                [ast.unparse(decorator) for decorator in node.decorator_list]
            ):
                fields = [
                    ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)
                ]
                if any(field.startswith("device: str") for field in fields):
                    findings["dataclasses with a device"].append(f"{module.name}.{node.name}")
        findings["calls of Trainer"] += [module.name for _ in module.calls("Trainer")]
        findings["calls of vars(x)"] += [
            module.name for call in module.calls("vars") if ast.unparse(call) != "vars(self)"
        ]
        if not module.name.endswith("resolve"):
            findings["settings replaced"] += [
                module.name
                for call in module.calls("replace")
                if call.args and re.search(r"settings|job", ast.unparse(call.args[0]))
            ]
    return findings


def find_words(modules: list[Module]) -> dict[str, list[str]]:
    """Find documentation that does not name its subject, or that uses private words."""
    findings: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            doc = docstring(node) if isinstance(node, FUNCTIONS) else None
            if doc and INDIRECT.match(str(doc.value)):
                findings["indirect docstrings"].append(f"{module.name}: {str(doc.value)[:60]!r}")
        findings["private words in docs"] += [
            f"{module.name}: {word}" for doc in module.docs for word in PRIVATE_WORDS.findall(doc)
        ]
    return findings


def find_all(modules: list[Module]) -> dict[str, list[str]]:
    """List what `LIMITS` counts, by the name of the count."""
    own = [module for module in modules if module.room not in OUTSIDE]
    findings = (
        find_imports(own) | find_names(own) | find_flags(own) | find_settings(own) | find_words(own)
    )
    findings["root modules"] = [
        module.name
        for module in own
        if module.name.startswith(f"{PACKAGE}.")
        and module.room == PACKAGE
        and "__" not in module.name
    ]
    tests = Counter(path.name for path in (HERE / "tests").rglob("test_*.py"))
    findings["test files with one name"] = [name for name, count in tests.items() if count > 1]
    findings["match= in tests"] = [
        f"{path.relative_to(HERE)}:{number}"
        for path in sorted((HERE / "tests").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for _ in range(line.count("match="))
    ]
    return findings


def measure_sizes(modules: list[Module]) -> dict[str, int]:
    """Count the code tokens of each room, documentation, long functions and vague names."""
    sizes = Counter[str]()
    for module in modules:
        room = "root" if module.room == PACKAGE else module.room
        sizes[f"code tokens in {room}"] += module.tokens
        sizes["code tokens"] += module.tokens
        sizes["words of documentation"] += sum(len(doc.split()) for doc in module.docs)
        for node in module.nodes:
            if isinstance(node, FUNCTIONS):
                num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
                sizes[f"functions of over {LONG_FUNCTION} lines"] += num_lines > LONG_FUNCTION
            elif is_bound_name(node) and node.id in VAGUE_NAMES:
                sizes[f"names bound to `{node.id}`"] += 1
    return dict(sorted(sizes.items()))


def read_tree() -> list[Module]:
    """Read the sources of the working tree."""
    paths = [path for top in (PACKAGE, *OUTSIDE) for path in sorted((HERE / top).rglob("*.py"))]
    return [Module(str(path.relative_to(HERE)), path.read_text("utf-8")) for path in paths]


def read_last_commit() -> list[Module]:
    """Read the sources of the last commit; none where this is no repository of git."""
    archive = subprocess.run(
        ["git", "archive", "HEAD", PACKAGE, *OUTSIDE], cwd=HERE, capture_output=True, check=False
    )
    if archive.returncode != 0:
        return []
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        sources = {
            member.name: content.read().decode("utf-8")
            for member in files
            if member.name.endswith(".py") and (content := files.extractfile(member))
        }
    return [Module(path, sources[path]) for path in sorted(sources)]


def main() -> int:
    """Print the counts beside their limits, and the sizes; return 1 where a limit is passed."""
    modules = read_tree()
    findings = find_all(modules)
    if sys.argv[1:2] == ["--list"]:
        print(*findings[" ".join(sys.argv[2:])], sep="\n")
        return 0
    before = measure_sizes(read_last_commit())
    for name, size in measure_sizes(modules).items():
        print(f"      {name:36} {size:9,}  ({size - before.get(name, 0):+,})")
    num_over = 0
    for name in sorted({*LIMITS, *findings}):
        value, limit = len(findings.get(name, [])), LIMITS.get(name, 0)
        is_over = value > limit
        num_over += is_over
        print(f"{'OVER' if is_over else '':5} {name:36} {value:9,}  limit {limit:9,g}")
    return int(num_over > 0)


if __name__ == "__main__":
    sys.exit(main())
