"""The page of a look: one HTML file with its data as JSON, which page.js draws."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bertsmith.errors import CheckpointError
from bertsmith.errors.model_kinds import name_of_family
from bertsmith.inspection.corpus_view import CorpusView
from bertsmith.inspection.decisions import TextDecisions
from bertsmith.inspection.head_statistics import HeadStatistics
from bertsmith.inspection.layer_recorder import AttentionHead
from bertsmith.inspection.neurons import plain_neurons
from bertsmith.inspection.plain_values import (
    ALPHABET,
    MAX_SHOWN_CHARACTERS,
    format_weights,
    plain_attribution,
    plain_decision,
    plain_piece,
    plain_statistics,
    rounded,
)
from bertsmith.inspection.run_steps import RunStep
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownText
from bertsmith.model.attention_pattern import FULL
from bertsmith.model.config import BertConfig
from bertsmith.pages.page import page_footer, render_page, write_page
from bertsmith.tasks.linear_classification import LinearTask
from bertsmith.tasks.predictor import Predictor

MAX_MAP_LABELS = 20
"""Largest number of labels on the map. The most frequent ones are shown, the others as `OTHERS`."""
OTHERS = "…"


@dataclass(frozen=True, eq=False)
class LookPage:
    """The content of a page about an encoder.

    A decision is a part of the prediction, such as a label. Its attribution says how much each
    token adds to the logit from which the decision comes.
    """

    folder: str
    """The model's folder, as the page names it."""
    config: BertConfig
    decided: TextDecisions
    """The text, its attention and vectors in each layer, and what the model decides about it."""
    without: TextDecisions | None
    """The decisions of the model without the heads `without_heads`; None if no head is left out."""
    without_heads: Sequence[AttentionHead]
    attributions: Sequence[Attribution | None]
    """The attribution of each decision, None where none was computed."""
    lens: dict[str, Any] | None
    """The prediction of each layer, as `show_lens` returns it."""
    predictor: Predictor[Any]
    statistics: HeadStatistics
    """Statistics of all heads, over the texts of `corpus` if there is one, else over the text."""
    corpus: CorpusView | None
    """The texts of a file, with the map of their vectors."""
    steps: Sequence[RunStep]
    """The text as checkpoints of the run read it, one entry for each checkpoint."""
    num_steps: int
    """Number of checkpoints of the run, of which `steps` may be only some."""
    are_words_shown: bool
    language: str


def render_look(data: dict[str, Any]) -> str:
    """Return the page with this data, as `page_data` builds it, as HTML.

    Raises:
        CheckpointError: a number in the data is not finite.
    """
    return render_page("inspection/page.html", footer=page_footer(), **_template_values(data))


def write_look(path: Path, data: dict[str, Any]) -> None:
    """Write the page with this data, as `page_data` builds it.

    Raises:
        InputError: the page cannot be written.
        CheckpointError: a number in the data is not finite.
    """
    write_page(path, "inspection/page.html", **_template_values(data))


def _template_values(data: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the page's template: the data as JSON, its language and its title.

    Raises:
        CheckpointError: a number in the data is not finite.
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise CheckpointError(
            f"{data['folder']}: the model computes numbers that are NaN or infinite, which no page "
            "can show. Its weights may be damaged: take an earlier checkpoint."
        ) from None
    # No text can end the script element, or begin a comment in it.
    return {
        "data": Markup(text.replace("<", "\\u003c")),
        "language": data["language"],
        "text": data["texts"][0][:60],
    }


def page_data(page: LookPage) -> dict[str, Any]:
    """Build the page's data as plain JSON values."""
    shown, config = page.decided.shown, page.config
    # A frame is what the page shows at one position of its slider over the checkpoints.
    frames = [{"step": step.step, **_frame(step.decided)} for step in page.steps]
    without = None
    if page.without is not None:
        names = [f"{layer + 1}.{head + 1}" for layer, head in page.without_heads]
        without = {"heads": names, "decisions": list(map(plain_decision, page.without.decisions))}
    return {
        "folder": page.folder,
        "family": config.model_type,
        "familyName": name_of_family(config.model_type),
        "layers": config.num_layers,
        "heads": config.num_attention_heads,
        "language": page.language,
        "words": page.are_words_shown,
        "texts": _shown_texts(shown),
        "sequences": [list(map(plain_piece, shown.pieces))],
        "blocks": [  # each is attention of one kind; an encoder has a single kind
            {
                "name": "the text to itself",
                "layers": config.num_layers,
                "heads": config.num_attention_heads,
                "rows": 0,
                "columns": 0,
            }
        ],
        "numAll": shown.num_all,
        "kind": page.decided.kind,
        "mask": page.predictor.tokenizer.mask_token,
        "alphabet": ALPHABET,
        "frames": [*frames, {"step": None, **_frame(page.decided)}],
        "neurons": plain_neurons([page.decided.layers.head_vectors]),
        # Whether a layer hides words from others, as a decoder hides those that follow.
        "hidesWords": any(layer.pattern != FULL for layer in page.predictor.model.layers),
        "numSteps": page.num_steps,
        "saliency": list(map(plain_attribution, page.attributions)),
        # A linear head is a logistic regression on the frozen encoder, whose saliency is exact.
        "isLinear": isinstance(page.predictor.definition, LinearTask),
        "without": without,
        "lens": page.lens,
        "statistics": plain_statistics(
            page.statistics, page.corpus.source if page.corpus else None
        ),
        "map": _map(page.corpus),
    }


def _shown_texts(shown: ShownText) -> list[str]:
    """Return the texts as far as the shown tokens reach, and some characters after that."""
    texts = []
    for part, text in enumerate(shown.texts):
        end = max((piece.end for piece in shown.pieces if piece.part == part), default=0)
        rest = text[end:]
        if len(rest) > MAX_SHOWN_CHARACTERS:
            rest = f"{rest[:MAX_SHOWN_CHARACTERS]} …"
        texts.append(text[:end] + rest)
    return texts


def _frame(decided: TextDecisions) -> dict[str, Any]:
    """Return the part of the data that differs between the checkpoints of a run."""
    decisions = list(map(plain_decision, decided.decisions))
    return {"weights": [format_weights(decided.layers.attentions)], "decisions": decisions}


def _map(corpus: CorpusView | None) -> dict[str, Any] | None:
    """Return the map of texts; labels beyond the most frequent ones become `OTHERS`."""
    if corpus is None:
        return None
    counts = Counter(corpus.labels).most_common(MAX_MAP_LABELS)
    names = sorted(label for label, _ in counts)
    if len(names) < len(set(corpus.labels)):
        names.append(OTHERS)
    numbers = {name: number for number, name in enumerate(names)}
    return {
        "points": [[rounded(x), rounded(y)] for x, y in corpus.map.points.tolist()],
        "explained": corpus.map.explained,
        "texts": corpus.texts,
        "names": names,
        "labels": [numbers.get(label, len(names) - 1) for label in corpus.labels],
        "arePredicted": corpus.are_labels_predicted,
    }
