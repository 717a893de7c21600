"""The page of a look: one HTML file with its data as JSON, which page.js draws."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from bertsmith.inspection.corpus_view import CorpusView
from bertsmith.inspection.decisions import Decided, Decision, decide_at_layers, head_of
from bertsmith.inspection.head_outputs import LayerOutputs
from bertsmith.inspection.head_statistics import STATISTICS, HeadStatistics
from bertsmith.inspection.layer_recorder import Head
from bertsmith.inspection.run_steps import RunStep
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownText
from bertsmith.model.config import BertConfig
from bertsmith.pages.page import page_footer, render_page, write_page
from bertsmith.tasks.predictor import Predictor

ALPHABET = "".join(chr(code) for code in range(32, 127) if chr(code) not in '<&\\"')
"""Characters that stand for attention weights, of which none needs an escape in JSON or HTML."""
MOST_LABELS = 20
"""Labels on the map, the most frequent ones; all others are one."""
OTHERS = "…"
MOST_REST = 200
"""Characters of a label or an answer, and of the rest of a text that the model does not read."""
MOST_WORDS = 3
"""Number of hidden words that the lens shows for each token and layer."""


@dataclass(frozen=True, eq=False)
class LookPage:
    """Everything that a page shows; the fields are described at `Look`."""

    folder: str
    config: BertConfig
    decided: Decided
    without: Decided | None
    without_heads: Sequence[Head]
    attributions: Sequence[Attribution | None]
    lens: Sequence[NDArray[np.float32]]
    predictor: Predictor[Any]
    statistics: HeadStatistics
    corpus: CorpusView | None
    steps: Sequence[RunStep]
    num_steps: int
    """Number of checkpoints of the run, of which `steps` may be only some."""
    are_words_shown: bool
    language: str


def render_look(page: LookPage) -> str:
    """Return the page as HTML."""
    return render_page("inspection/page.html", footer=page_footer(), **_values(page))


def write_look(path: Path, page: LookPage) -> None:
    """Write the page.

    Raises:
        InputError: it cannot be written.
    """
    write_page(path, "inspection/page.html", **_values(page))


def _values(page: LookPage) -> dict[str, Any]:
    text = json.dumps(page_data(page), ensure_ascii=False, separators=(",", ":"))
    # No text can end the script element, or begin a comment in it.
    return {
        "data": Markup(text.replace("<", "\\u003c")),
        "language": page.language,
        "text": page.decided.shown.texts[0][:60],
    }


def page_data(page: LookPage) -> dict[str, Any]:
    """Build the page's data as plain JSON values."""
    shown, config = page.decided.shown, page.config
    frames = [{"step": each.step, **_frame(each.decided)} for each in page.steps]
    without = None
    if page.without is not None:
        names = [f"{layer + 1}.{head + 1}" for layer, head in page.without_heads]
        without = {"heads": names, "decisions": list(map(_plain, page.without.decisions))}
    return {
        "folder": page.folder,
        "family": config.model_type,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "language": page.language,
        "words": page.are_words_shown,
        "texts": _shown_texts(shown),
        "tokens": [
            [each.token, -1 if each.part is None else each.part, each.start, each.end, each.word]
            for each in shown.pieces
        ],
        "numAll": shown.num_all,
        "kind": page.decided.kind,
        "mask": page.predictor.tokenizer.mask_token,
        "alphabet": ALPHABET,
        "frames": [*frames, {"step": None, **_frame(page.decided)}],
        "numSteps": page.num_steps,
        "saliency": list(map(_saliency, page.attributions)),
        "without": without,
        "lens": _lens(page),
        "statistics": _statistics(page),
        "map": _map(page.corpus),
    }


def _shown_texts(shown: ShownText) -> list[str]:
    """Return the texts as far as the row reads them, and some characters after that."""
    texts = []
    for part, text in enumerate(shown.texts):
        end = max((piece.end for piece in shown.pieces if piece.part == part), default=0)
        rest = text[end:]
        texts.append(text[:end] + (f"{rest[:MOST_REST]} …" if len(rest) > MOST_REST else rest))
    return texts


def _frame(decided: Decided) -> dict[str, Any]:
    decisions = list(map(_plain, decided.decisions))
    return {"weights": spell_weights(decided.layers), "decisions": decisions}


def spell_weights(layers: LayerOutputs) -> str:
    """Spell attention weights, each as one character, in the order [layers, heads, rows, columns].

    Level k of 0 to 90 stands for the weight (k / 90)^2, so that small weights are finer.
    """
    steps = len(ALPHABET) - 1
    levels = torch.stack(layers.attentions).clamp(0, 1).sqrt().mul(steps).round()
    codes = np.frombuffer(ALPHABET.encode("ascii"), dtype=np.uint8)
    return codes[levels.to(torch.uint8).numpy()].tobytes().decode("ascii")


def _plain(decision: Decision) -> dict[str, Any]:
    span = None
    if decision.part is not None:
        span = [decision.part, decision.start, decision.end]
    return {
        "label": _clipped(decision.label),
        "value": _rounded(decision.value),
        "text": _clipped(decision.text),
        "span": span,
        "color": decision.color,
    }


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_REST else f"{text[:MOST_REST]}…"


def _saliency(result: Attribution | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "values": list(map(_rounded, result.values.tolist())),
        "logit": _rounded(result.logit),
        "baseline": _rounded(result.baseline_logit),
        "error": _rounded(result.error),
        "points": result.num_points,
    }


def _lens(page: LookPage) -> dict[str, Any] | None:
    """Say what each layer would predict: for each token, or for the text as a whole."""
    head, predictor, shown = head_of(page.predictor), page.predictor, page.decided.shown
    if head is None:
        return None
    if head == "masked_lm":
        return {"tokens": [_likely_words(predictor, logits) for logits in page.lens]}
    if head == "replaced_token":
        shares = (torch.from_numpy(logits).flatten().sigmoid().tolist() for logits in page.lens)
        return {"tokens": [[[["", _rounded(share)]] for share in layer] for layer in shares]}
    if head == "tag":
        firsts = set(shown.encoded.alignment[0].tokens.tolist() if shown.example.words else [])
        return {"tokens": [_likely_labels(predictor, logits, firsts) for logits in page.lens]}
    layers = decide_at_layers(predictor, page.decided, page.lens)
    return {
        "decisions": [
            [[_clipped(each.text or each.label), _rounded(each.value)] for each in layer]
            for layer in layers
        ]
    }


def _likely_words(predictor: Predictor[Any], logits: NDArray[np.float32]) -> list[Any]:
    size = predictor.tokenizer.vocab_size
    shares = torch.from_numpy(logits)[:, :size].softmax(-1)
    values, ids = shares.topk(min(MOST_WORDS, size))
    decode = predictor.tokenizer.decode
    return [
        [
            [decode([id_], skip_special_tokens=False).strip(), _rounded(share)]
            for id_, share in zip(*row, strict=True)
        ]
        for row in zip(ids.tolist(), values.tolist(), strict=True)
    ]


def _likely_labels(
    predictor: Predictor[Any], logits: NDArray[np.float32], firsts: set[int]
) -> list[Any]:
    """List the likeliest labels of each token that begins a word; None for the others."""
    names = predictor.definition.labels
    shares = torch.from_numpy(logits).softmax(-1)
    values, numbers = shares.topk(min(MOST_WORDS, len(names)))
    rows = zip(numbers.tolist(), values.tolist(), strict=True)
    return [
        [[names[number], _rounded(share)] for number, share in zip(*row, strict=True)]
        if position in firsts
        else None
        for position, row in enumerate(rows)
    ]


def _statistics(page: LookPage) -> dict[str, Any]:
    result = page.statistics
    return {
        "names": STATISTICS,
        "source": None if page.corpus is None else page.corpus.source,
        "numTexts": result.num_texts,
        "numTokens": result.num_tokens,
        "means": [[_rounded(x) for x in head] for layer in result.means.tolist() for head in layer],
    }


def _map(corpus: CorpusView | None) -> dict[str, Any] | None:
    if corpus is None:
        return None
    counts = Counter(corpus.labels).most_common(MOST_LABELS)
    names = sorted(label for label, _ in counts)
    if len(names) < len(set(corpus.labels)):
        names.append(OTHERS)
    numbers = {name: number for number, name in enumerate(names)}
    return {
        "points": [[_rounded(x), _rounded(y)] for x, y in corpus.map.points.tolist()],
        "explained": corpus.map.explained,
        "texts": corpus.texts,
        "names": names,
        "labels": [numbers.get(label, len(names) - 1) for label in corpus.labels],
        "arePredicted": corpus.are_labels_predicted,
    }


def _rounded(value: float) -> float:
    """Round to four digits, which is finer than the page shows."""
    return float(f"{value:.4g}")
