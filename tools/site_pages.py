"""Hooks of `make docs`, which change the pages of a checkout for the site.

Notebooks become pages. Links to files that the site does not have, such as code, become their text.
Chinese pages are marked as Chinese, and their line breaks do not become spaces. The search ranks
pages for users above those about changes and measurements.
"""

import json
import os
import re
from collections.abc import Container
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[([^][]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
"""A link: its text, its target, and the heading in the target, if there is one."""
WIDE = r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef“”‘’…—]"
LINE_BREAK = re.compile(rf"(?<={WIDE})\n(?={WIDE})")
"""A line break between two characters of a script without spaces."""
INLINE_CODE = re.compile(r"(?<!<span></span>)<code>([^<\n]*)</code>")
FLAG = re.compile(r"--?[a-z][\w-]*")
LAST_IN_SEARCH = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "docs/architecture.md",
    "docs/glossary.md",
    "benchmarks/",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace notebooks by pages."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            notebook = json.loads(file.content_string)
            files.remove(file)
            name = as_page_name(file.src_uri)
            files.append(File.generated(config, name, content=to_markdown(notebook)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change a page before it is rendered."""
    if page.file.src_uri.startswith(LAST_IN_SEARCH):
        page.meta["search"] = {"boost": 0.1}
    markdown = re.sub(r"\(([^()\s]+\.ipynb)\)", lambda link: f"({as_page_name(link[1])})", markdown)
    markdown = unlink_absent(markdown, page.file.src_uri, set(files.src_uris))
    if page.file.src_uri in ("README.md", "README.zh.md"):
        # The other language is in the menu.
        markdown = re.sub(
            r"^\[[^]]+\]\(README[.\w]*\)\n", "", markdown, count=1, flags=re.MULTILINE
        )
    return join_lines(markdown) if is_chinese(page.file.src_uri) else markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep flags in one piece at the ends of lines."""
    whole = r'<span class="flag">\g<0></span>'
    return INLINE_CODE.sub(lambda code: f"<code>{FLAG.sub(whole, code[1])}</code>", html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the language of a Chinese page."""
    if is_chinese(page.file.src_uri):
        return output.replace('<html lang="en"', '<html lang="zh"', 1)
    return output


def unlink_absent(markdown: str, page_path: str, site_paths: Container[str]) -> str:
    """Replace links to files and folders of the repository that the site does not have.

    A link to what the repository does not have either stays, so that the build warns of it.

    Args:
        page_path: the page's path in the repository.
        site_paths: the paths of all files of the site, as in the repository.

    >>> page = "[The code](../Makefile), [the road](tasks.md), [lost](../lost.py)"
    >>> unlink_absent(page, "docs/index.md", {"docs/tasks.md"})
    'The code, [the road](tasks.md), [lost](../lost.py)'
    """

    def replace(link: re.Match[str]) -> str:
        path = os.path.normpath(f"{PurePosixPath(page_path).parent}/{link[2]}")
        is_absent = path not in site_paths and (ROOT / path).exists()
        return link[1] if is_absent else link[0]

    return LINK.sub(replace, markdown)


def is_chinese(path: str) -> bool:
    return "/zh/" in path or path.endswith(".zh.md")


def as_page_name(path: str) -> str:
    return path.removesuffix(".ipynb") + ".md"


def join_lines(markdown: str) -> str:
    """Join lines between Chinese characters, but not in code.

    >>> join_lines("它从文本里学出词表，\\n再微调 BERT\\n和模型。")
    '它从文本里学出词表，再微调 BERT\\n和模型。'
    """
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINE_BREAK.sub("", part) for part in parts)


def to_markdown(notebook: dict[str, Any]) -> str:
    """Write the cells of a notebook, with what they show, as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := show(output))]
    return "\n\n".join(parts) + "\n"


def show(output: dict[str, Any]) -> str:
    """Write an output: its picture or table, or else its text."""
    if output["output_type"] == "stream":
        return as_output("".join(output["text"]))
    data = output.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            html = re.sub(r"\n\s*\n", "\n", "".join(data[kind]))
            return f'<div class="output">{html}</div>'
    return as_output("".join(data.get("text/plain", "")))


def as_output(text: str) -> str:
    return (
        f'<div class="output" markdown>\n\n```text\n{text.rstrip()}\n```\n\n</div>' if text else ""
    )
