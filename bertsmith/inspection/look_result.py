"""The result of looking inside a model, which shows itself in a notebook or writes a page."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.inspection.page import render_look, write_look
from bertsmith.inspection.saliency import Attribution
from bertsmith.system.counts import count_noun

NOTEBOOK_HEIGHT = 900
"""Height of the page in a notebook, in pixels."""


def shown_path(model: str | PathLike[str]) -> str:
    """Return a model's path as its page names it: relative ones, and names on the hub, as they are.

    Of an absolute path it is only the folder's name. So a page that is given to others does not
    tell where the folder is on this computer.
    """
    path = Path(model)
    return path.name if path.is_absolute() else str(path)


class Look(ABC):
    """The inside of a model while it reads a text.

    A *decision* is a part of the model's prediction, such as a label, an entity or a word for
    [MASK]. Its *attribution* says how much each token adds to the logit of the decision.

    Args:
        data: the page's data, as plain JSON values, which page.js draws.
        tokens: the tokens of the text, as the page writes them.
        num_all: the number of the tokens before the text was cut for the page.
    """

    def __init__(self, data: dict[str, Any], tokens: Sequence[str], num_all: int) -> None:
        self.data = data
        self.tokens = list(tokens)
        self.num_all = num_all

    @property
    @abstractmethod
    def attentions(self) -> list[NDArray[np.float32]]:
        """The attention weights of each layer, fp32 [heads, tokens, tokens], a query in a row."""

    @property
    @abstractmethod
    def attributions(self) -> Sequence[Attribution | None]:
        """The attribution of each decision, None where none was computed."""

    def __repr__(self) -> str:
        layers, heads = self.data["layers"], self.data["heads"]
        size = f"{count_noun(layers, 'layer')} of {count_noun(heads, 'head')}"
        return f"<Look at {count_noun(len(self.tokens), 'token')} in {size}; save it as a page>"

    def save(self, path: str | Path) -> Path:
        """Write the page, a single file that needs no network.

        Raises:
            InputError: the page cannot be written.
            CheckpointError: the model computes numbers that are NaN or infinite.
        """
        write_look(Path(path), self.data)
        return Path(path)

    def _repr_html_(self) -> str:
        # As in files of pages, a byte of a path that is not UTF-8 is shown as \udcff.
        page = render_look(self.data).encode(errors="backslashreplace").decode()
        content = escape(page, quote=True)
        style = f"width: 100%; height: {NOTEBOOK_HEIGHT}px; border: 0"
        return f'<iframe title="bertsmith look" style="{style}" srcdoc="{content}"></iframe>'
