"""Convert vectors to tables of pandas or polars, which scikit-learn's `set_output` can choose."""

import importlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def default_output() -> str:
    """Return the kind of output that `sklearn.set_config(transform_output=…)` has set."""
    sklearn = sys.modules.get("sklearn")
    return "default" if sklearn is None else sklearn.get_config()["transform_output"]


def as_output(kind: str, vectors: NDArray[np.float32], names: NDArray[Any], texts: Any) -> Any:
    """Return vectors as they are or as a table of pandas or polars.

    Args:
        kind: "default" (as they are), "pandas" or "polars".
        vectors: fp32 `[texts, hidden]`.
        names: the names of the table's columns, `[hidden]`.
        texts: the texts of the vectors. If they are a table or column of pandas, their index
            becomes that of the returned pandas table.
    """
    if kind == "pandas":
        pandas = importlib.import_module("pandas")
        is_indexed = hasattr(type(texts), "iloc")
        return pandas.DataFrame(vectors, columns=names, index=texts.index if is_indexed else None)
    if kind == "polars":
        polars = importlib.import_module("polars")
        return polars.DataFrame(vectors, schema=list(names), orient="row")
    return vectors
