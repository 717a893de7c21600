"""Count what makes the code hard to live in, and hold each count to a limit.

`python tools/house.py` prints the counts and ends with 1 where one is over its limit;
`--list COUNT` names what was counted. Limits only fall: raising one is a line of a change, with its
reason. Code is counted in tokens, so that joining lines gains nothing, and with benchmarks and
tools, so that moving code out of the package removes none; tests in lines. `GOALS` are what limits
have still to fall to.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PACKAGE = "bertsmith"
OUTSIDE = ("benchmarks", "tools")

LIMITS: dict[str, float] = {
    "code tokens": 333_594,
    "code tokens in benchmarks": 27_193,
    "code tokens in commands": 17_700,
    "code tokens in comparison": 8_154,
    "code tokens in compression": 4_935,
    "code tokens in data": 41_986,
    "code tokens in demo": 9_078,
    "code tokens in estimators": 8_996,
    "code tokens in distillation": 9_183,
    "code tokens in evaluation": 9_868,
    "code tokens in finetuning": 8_728,
    "code tokens in metrics": 8_397,
    "code tokens in model": 38_866,
    "code tokens in pages": 1_885,
    "code tokens in pretraining": 25_168,
    "code tokens in root": 3_124,
    "code tokens in system": 10_485,
    "code tokens in tasks": 35_163,
    "code tokens in tokenization": 26_334,
    "code tokens in tools": 6_367,
    "code tokens in training": 22_930,
    "code tokens in vocabulary": 9_136,
    "doc words per 100 words and tokens": 17.8,
    "lines of tests": 20_000,
    "match= in tests": 14,
    "calls of Trainer": 1,
    "calls of vars(x)": 0,
    "circles of imports": 0,
    "classes with over 16 public methods": 2,
    "dataclasses with a device": 1,
    "imports for types alone": 0,
    "imports inside functions": 2,
    "modules with over 12 public names": 0,
    "names with several homes": 0,
    "private words in docs": 0,
    "root modules": 4,
    "settings replaced": 4,
    "signatures with over 9 parameters": 3,
    "small files with one user": 0,
}
GOALS: dict[str, float] = {
    "code tokens": 240_000,
    "code tokens in data": 25_000,
    "code tokens in tasks": 25_000,
    "code tokens in model": 25_000,
    "code tokens in training": 15_000,
    "code tokens in commands": 8_000,
    "code tokens in tokenization": 17_500,
    "code tokens in vocabulary": 7_000,
    "code tokens in pretraining": 14_000,
    "code tokens in finetuning": 6_500,
    "code tokens in distillation": 6_500,
    "code tokens in evaluation": 5_500,
}

ARCHITECTURE = (HERE / "docs" / "architecture.md").read_text(encoding="utf-8")
SMALL_FILE = 900  # tokens
PLUGIN_ROOMS = {
    "commands",
    "families",
    "trackers",
    "update_rules",
    "weight_formats",
}  # a file for each choice, however small
COMMAND_NAMES = ("main", "parse", "Settings")  # what each file of commands/ must define
NOT_CODE = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
INDIRECT = re.compile(r"(What|The same|How|Where|With|Of|As|Everything|Whoever|Whose|Who)\b")
PRIVATE_WORDS = re.compile(
    r"\b(welcome|yardstick|learnt|tally|lessons?|team|waves|dismiss|farewell|strangers?|fates?)\b",
    re.IGNORECASE,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *FUNCTIONS)


class Module:
    """A source file: its syntax tree, room, code tokens and documentation."""

    def __init__(self, path: Path) -> None:
        parts = path.relative_to(HERE).with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")
        self.room = parts[1] if len(parts) > 2 and parts[0] == PACKAGE else parts[0]
        source = path.read_text(encoding="utf-8")
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


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" ".join(error.args[1])]
    return []


def find_imports(modules: list[Module]) -> dict[str, list[str]]:
    """Find what the imports of the package's modules do that makes it hard to enter."""
    found: dict[str, list[str]] = defaultdict(list)
    graph: dict[str, set[str]] = {module.name: set() for module in modules}
    users: dict[str, set[str]] = defaultdict(set)
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
            users[target].add(module.name)
            if id(statement) in inside:
                found["imports inside functions"].append(f"{module.name}: {target}")
            # The facade's names are lazy: their imports are for type checkers.
            if id(statement) in typing and module.name != PACKAGE:
                found["imports for types alone"].append(f"{module.name}: {target}")
    found["circles of imports"] = find_circle(graph)
    rooms = {module.name: module.room for module in modules}
    found["small files with one user"] = [
        f"{module.name} ({module.tokens}, for {next(iter(users[module.name]))})"
        for module in modules
        if module.tokens < SMALL_FILE
        # A file with one user in another room is what its own room offers there.
        and [rooms[user] for user in users[module.name]] == [module.room]
        # What architecture.md names is an idea that a newcomer may look for.
        and f"{'/'.join(module.name.split('.')[1:])}.py" not in ARCHITECTURE
        and not PLUGIN_ROOMS & {*module.name.split(".")}
        and not module.name.endswith(module.room)
    ]
    return found


def find_names(modules: list[Module]) -> dict[str, list[str]]:
    """Find names that stand for several things, and files and classes with many."""
    found: dict[str, list[str]] = defaultdict(list)
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        names = module.public_names()
        if len(names) > 12:
            found["modules with over 12 public names"].append(f"{module.name} ({len(names)})")
        for name in names:
            if module.room != "commands" or name not in COMMAND_NAMES:
                homes[name].append(module.name)
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                methods = [part.name for part in node.body if isinstance(part, FUNCTIONS)]
                if len([name for name in methods if not name.startswith("_")]) > 16:
                    found["classes with over 16 public methods"].append(
                        f"{module.name}.{node.name}"
                    )
            elif isinstance(node, FUNCTIONS):
                given = node.args
                names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
                if len([name for name in names if name not in ("self", "cls")]) > 9:
                    found["signatures with over 9 parameters"].append(f"{module.name}.{node.name}")
    found["names with several homes"] = [
        f"{name}: {' '.join(places)}" for name, places in homes.items() if len(places) > 1
    ]
    return found


def find_settings(modules: list[Module]) -> dict[str, list[str]]:
    """Find second homes of settings: where they are declared, resolved and assembled again."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and "dataclass" in str(
                [ast.unparse(decorator) for decorator in node.decorator_list]
            ):
                fields = [
                    ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)
                ]
                if any(field.startswith("device: str") for field in fields):
                    found["dataclasses with a device"].append(f"{module.name}.{node.name}")
        found["calls of Trainer"] += [module.name for _ in module.calls("Trainer")]
        found["calls of vars(x)"] += [
            module.name for call in module.calls("vars") if ast.unparse(call) != "vars(self)"
        ]
        if not module.name.endswith("resolve"):
            found["settings replaced"] += [
                module.name
                for call in module.calls("replace")
                if call.args and re.search(r"settings|job", ast.unparse(call.args[0]))
            ]
    return found


def find_words(modules: list[Module]) -> dict[str, list[str]]:
    """Find documentation that does not name its subject, or names it in words of our own."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            doc = docstring(node) if isinstance(node, FUNCTIONS) else None
            if doc and INDIRECT.match(str(doc.value)):
                found["indirect docstrings"].append(f"{module.name}: {str(doc.value)[:60]!r}")
        found["private words in docs"] += [
            f"{module.name}: {word}" for doc in module.docs for word in PRIVATE_WORDS.findall(doc)
        ]
    return found


def count(modules: list[Module]) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return all counts, and lists of what was counted."""
    own = [module for module in modules if module.room not in OUTSIDE]
    found = find_imports(own) | find_names(own) | find_settings(own) | find_words(own)
    found["root modules"] = [
        module.name
        for module in own
        if module.name.startswith(f"{PACKAGE}.")
        and module.room == PACKAGE
        and "__" not in module.name
    ]
    rooms = Counter[str]()
    for module in modules:
        rooms["root" if module.room == PACKAGE else module.room] += module.tokens
    words = sum(len(doc.split()) for module in own for doc in module.docs)
    tokens = sum(module.tokens for module in own)
    counts = {
        "code tokens": float(sum(rooms.values())),
        **{f"code tokens in {room}": float(rooms[room]) for room in sorted(rooms)},
        "doc words per 100 words and tokens": round(100 * words / (words + tokens), 1),
        **{name: float(len(items)) for name, items in sorted(found.items())},
    }
    return counts, found


def main() -> int:
    """Print the counts beside their limits and goals; return 1 where a limit is passed."""
    paths = [path for top in (PACKAGE, *OUTSIDE) for path in sorted((HERE / top).rglob("*.py"))]
    counts, found = count([Module(path) for path in paths])
    tests = [path.read_text(encoding="utf-8") for path in (HERE / "tests").rglob("*.py")]
    for name, part in (("lines of tests", "\n"), ("match= in tests", "match=")):
        counts[name] = sum(text.count(part) for text in tests)
    if sys.argv[1:2] == ["--list"]:
        print(*found[" ".join(sys.argv[2:])], sep="\n")
        return 0
    over = 0
    for name, value in counts.items():
        limit = LIMITS.get(name, 0)
        over += value > limit
        mark = "OVER  " if value > limit else "      "
        goal = f"  goal {GOALS[name]:,g}" if name in GOALS else ""
        print(f"{mark}{name:36} {value:9,g}  limit {limit:9,g}{goal}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
