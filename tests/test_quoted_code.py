"""Code of ours that a page quotes stands in the definition that the page names, line by line."""

import ast
import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent
QUOTE = re.compile(r"\[`([\w.]+)`\]\(([^)]+\.py)\)[^\n]*\n\n```py\n(.*?)```", re.DOTALL)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
QUOTES = [
    pytest.param(page, *quote, id=f"{page.relative_to(ROOT / 'docs')}: {quote[0]}")
    for page in PAGES
    for quote in QUOTE.findall(page.read_text(encoding="utf-8"))
]


def name_of(node: ast.AST) -> str | None:
    """Return the name that a definition or an assignment gives."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return getattr(node, "name", None)


def source_of(path: Path, name: str) -> str:
    """Return the lines of a function, class or constant, with its decorators."""
    source = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        [node] = [each for each in ast.iter_child_nodes(node) if name_of(each) == part]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)
    decorators = [] if isinstance(node, ast.Assign) else node.decorator_list
    first = decorators[0] if decorators else node
    return dedent("\n".join(source.split("\n")[first.lineno - 1 : node.end_lineno]))


@pytest.mark.parametrize("page, name, link, code", QUOTES)
def test_quoted_code_is_that_of_the_definition(page, name, link, code):
    lines = source_of((page.parent / link).resolve(), name).split("\n")
    quoted = code.removesuffix("\n").split("\n")
    # The quoted lines may be those of an inner block.
    assert any(
        dedent("\n".join(lines[start : start + len(quoted)])) == "\n".join(quoted)
        for start in range(len(lines))
    )


def test_quoted_code_names_its_definition_and_is_that_of_both_languages():
    quoted = {page: QUOTE.findall(page.read_text(encoding="utf-8")) for page in PAGES}
    quoted = {page: quotes for page, quotes in quoted.items() if quotes}
    assert ROOT / "docs" / "lineage.md" in quoted
    for page, quotes in quoted.items():
        assert page.read_text(encoding="utf-8").count("```py\n") == len(quotes)
        if (chinese := ROOT / "docs" / "zh" / page.relative_to(ROOT / "docs")).exists():
            theirs = [(name, code) for name, _, code in quoted[chinese]]
            assert theirs == [(name, code) for name, _, code in quotes]


EXTENDING = [ROOT / "docs" / name for name in ("extending.md", "zh/extending.md")]


def imports_of(source: str) -> dict[str, str]:
    """Return the import of each name that a source imports, on a line of its own."""
    statements = [
        node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return {
        alias.asname or alias.name: (
            f"from {node.module} import {alias.name}"
            if isinstance(node, ast.ImportFrom)
            else f"import {alias.name} as {alias.asname or alias.name}"
        )
        for node in statements
        for alias in node.names
    }


@pytest.mark.parametrize("page", EXTENDING, ids=["en", "zh"])
def test_each_section_of_the_page_has_the_imports_of_its_code(page):
    sections = page.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 6
    for section in sections:
        [block] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        needed = {}
        for _, link, code in QUOTE.findall(section):
            names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
            imports = imports_of((page.parent / link).resolve().read_text(encoding="utf-8"))
            needed |= {name: imports[name] for name in names & set(imports)}
        assert imports_of(block) == needed
