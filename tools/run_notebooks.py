"""Run the notebooks of docs/ in their order and store the output of their cells, without progress.

`make notebooks` takes a quarter of an hour, ten minutes of it for the first notebook;
`python tools/run_notebooks.py 3-search` runs one alone. Cells run in this process, without a
kernel; standard error is not stored.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "docs/notebooks").glob("*.ipynb"))
KINDS = {"_repr_html_": "text/html", "_repr_svg_": "image/svg+xml"}
"""Methods of a value that a notebook calls, and the type of the text that they return."""


def run_notebook(notebook: dict[str, Any], change: Callable[[str], str] = str) -> None:
    """Run the cells of a notebook in the working directory, and store their outputs in them.

    Args:
        change: function that changes the source of a cell before it runs; the stored source stays.
    """
    names: dict[str, Any] = {}
    code_cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(code_cells, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = run_cell(change("".join(cell["source"])), names)
        cell |= {"execution_count": number, "outputs": []}
        if text := printed.getvalue():
            lines = text.splitlines(keepends=True)
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines})
        if value is not None:
            data = {"text/plain": repr(value)}
            data |= getattr(value, "_repr_mimebundle_", dict)()
            for method, kind in KINDS.items():
                if (shown := getattr(value, method, lambda: None)()) is not None:
                    data[kind] = shown
            cell["outputs"].append(
                {"output_type": "execute_result", "metadata": {}, "data": data}
                | {"execution_count": number}
            )


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last line if that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else ast.Expr(ast.Constant(None))
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(
        compile(ast.fix_missing_locations(ast.Expression(last.value)), "cell", "eval"), names
    )


def main() -> None:
    names = sys.argv[1:] or [path.stem for path in NOTEBOOKS]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path in [path for path in NOTEBOOKS if path.stem in names]:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            run_notebook(notebook)
            text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
            path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
