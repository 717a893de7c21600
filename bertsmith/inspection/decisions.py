"""Decisions of a model about a shown text, and the logits from which each decision comes.

A prediction has one or several decisions: the labels with their probabilities, the entities, the
answers, or the words for [MASK]. A `LoadedDefinition` is a model with its tokenizer and, in
`definition`, its task: it encodes texts, and decodes the outputs of the head to a prediction.
A `Target` is the logit of a decision: a token's position in the row and an output of the head, or a
sum over several such cells. For a head that reads one vector of a row, the position is 0.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.data.label_values import label_name
from bertsmith.inspection.head_outputs import apply_head, pack_copies
from bertsmith.inspection.layer_outputs import LayerOutputs, compute_layers
from bertsmith.inspection.layer_recorder import AttentionHead
from bertsmith.inspection.saliency import Target
from bertsmith.inspection.shown_text import ShownPiece, ShownText
from bertsmith.model.bert import TOKEN_HEADS
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.linear_classification import LinearTask
from bertsmith.tasks.marks import WRONG
from bertsmith.tasks.predictor import LoadedDefinition
from bertsmith.tasks.tagged_text import span_types
from bertsmith.tasks.token_classification import Tag

MAX_DECISIONS = 20
"""Largest number of decisions that are listed, such as the labels of a classifier."""
MAX_AT_LAYERS = 3
"""Largest number of decisions that are listed for each layer."""
MIN_REPLACED_PROBABILITY = 0.5
"""Probability from which a token of an ELECTRA counts as replaced."""

Kind = Literal["labels", "number", "tags", "answers", "masks", "choices", "replaced", "none"]
"""The kind of decisions that a model makes, by its head: the tags of words, the choices of a
prompt, the tokens that an ELECTRA finds replaced, and so on; "none" for an encoder without a head.
"""


@dataclass(frozen=True)
class Decision:
    """A decision of a model, such as a label, an entity or a word for [MASK].

    Attributes:
        label: its name.
        value: its probability; the number of a regression; or the logit of a choice at a layer.
        text: the words that the decision is about; empty if it is about the text as a whole.
        part: the text that these words are in, 0 or 1.
        start: the index of the words' first character in that text.
        end: one past the index of their last character.
        color: the index of a color on the page; entities of one type have the same color.
        target: the logit from which the decision comes; None if there is no such logit.
        row: the row of tokens to which the logit belongs; only choices have several rows.
        label_id: the id of its label, which is its column in the outputs of the head; 0 if the
            decision is not a label.
    """

    label: str
    value: float
    text: str = ""
    part: int | None = None
    start: int = 0
    end: int = 0
    color: int = 0
    target: Target | None = None
    row: int = 0
    label_id: int = 0


@dataclass(frozen=True, eq=False)
class TextDecisions:
    """The decisions about a text; if only one of them can be true, the likeliest is first.

    `shown` is the text on the page, and `layers` are its vectors and attention. If there are
    several choices, it is the text with the likeliest choice.
    """

    kind: Kind
    decisions: tuple[Decision, ...]
    shown: ShownText
    layers: LayerOutputs


def head_name(loaded: LoadedDefinition[Any]) -> str | None:
    """Return the name of a model's head.

    It is None for an encoder, and for a logistic regression on frozen vectors.
    """
    heads = loaded.model.heads
    # No task has the head of an ELECTRA, which is shown, too.
    names = (*loaded.definition.heads, "replaced_token")
    # Of the heads with which the task can do, the first that the model has.
    return next((name for name in names if name in heads), None)


def decide(
    loaded: LoadedDefinition[Any],
    rows: Sequence[ShownText],
    without: Collection[AttentionHead] = (),
    reference: TextDecisions | None = None,
) -> TextDecisions:
    """Compute layers and decisions, without the attention heads of `without`.

    Args:
        rows: the text as a row of tokens; of a multiple choice, one row for each choice.
        reference: earlier decisions; labels are in the same order, and the same choice is shown.
    """
    model, head = loaded.model, head_name(loaded)
    computed: list[LayerOutputs] = []
    logits: list[NDArray[np.float32]] = []
    for row in rows:
        batch = pack_copies(model, row.ids, row.type_ids)
        layers = compute_layers(model, batch, without)
        computed.append(layers)
        if head is not None:
            if head == "masked_lm":  # logits over the vocabulary only where a word is to be filled
                positions = np.flatnonzero(row.ids == loaded.tokenizer.mask_id).tolist()
            else:
                positions = list(range(len(row.ids)))
            logits.append(_logits(loaded, head, layers, batch, positions))
    if head is None:
        kind, decisions = _decide_without_head(loaded, rows[0])
    else:
        kind, decisions = _decide_by_head(loaded, head, rows, logits)
    shown_row = 0
    if kind == "choices":
        best = max(range(len(rows)), key=lambda number: logits[number][0, 0])
        shown_row = best if reference is None else reference.shown.row
    listed = _list_decisions(kind, decisions, shown_row, reference)
    return TextDecisions(kind, tuple(listed), rows[shown_row], computed[shown_row])


def _list_decisions(
    kind: Kind, decisions: list[Decision], shown_row: int, reference: TextDecisions | None
) -> list[Decision]:
    """List the decisions that the page shows, labels and choices in the order of `reference`."""
    if kind not in ("labels", "choices"):
        return decisions
    if kind == "choices":
        # The other choices are in rows of their own, which the page does not show.
        decisions = [
            decision if decision.row == shown_row else replace(decision, target=None)
            for decision in decisions
        ]
    if reference is not None:
        order = {decision.label: rank for rank, decision in enumerate(reference.decisions)}
        decisions = sorted(decisions, key=lambda decision: order.get(decision.label, len(order)))
    return decisions[:MAX_DECISIONS]


def decide_at_layers(
    loaded: LoadedDefinition[Any], decided: TextDecisions, lens: Sequence[NDArray[np.float32]]
) -> list[list[Decision]]:
    """Return for each layer the decisions of the head about the text as a whole.

    For a multiple choice, the value is the logit of the shown choice, since only that choice has
    vectors here. The result is an empty list for heads that decide about each token.

    Args:
        lens: the logits that the head gives for the vectors of each layer ("logit lens"), fp32
            [positions, outputs].
    """
    shown, head = decided.shown, head_name(loaded)
    if decided.kind == "choices":
        name = shown.example.choices[shown.row]
        return [[Decision(name, float(logits[0, 0]))] for logits in lens]
    if head is None or decided.kind not in ("labels", "number", "answers"):
        return []
    order = {decision.label: rank for rank, decision in enumerate(decided.decisions)}
    layers = []
    for logits in lens:
        decisions = _decide_by_head(loaded, head, [shown], [logits])[1]
        if decided.kind == "labels":
            decisions = [decision for decision in decisions if decision.label in order]
            decisions.sort(key=lambda decision: order[decision.label])
        layers.append(decisions[:MAX_AT_LAYERS])
    return layers


@torch.no_grad()
def _logits(
    loaded: LoadedDefinition[Any],
    head: str,
    layers: LayerOutputs,
    batch: Any,
    positions: Sequence[int],
) -> NDArray[np.float32]:
    """Compute logits of a row, fp32 [positions, outputs]; `batch` is that row alone."""
    (logits,) = apply_head(loaded.model, head, layers.vectors, batch, positions)
    return np.asarray(logits.cpu().numpy(), dtype=np.float32)


def _decide_without_head(
    loaded: LoadedDefinition[Any], row: ShownText
) -> tuple[Kind, list[Decision]]:
    """Decide by a linear head (a logistic regression on the frozen encoder), or not at all."""
    definition = loaded.definition
    if not isinstance(definition, LinearTask):
        return "none", []
    (prediction,) = definition.predict(loaded.model, row.encoded, [row.example])
    probabilities = enumerate(prediction.probabilities.items())
    named = [
        Decision(label_name(label), probability, color=label_id, label_id=label_id)
        for label_id, (label, probability) in probabilities
    ]
    return "labels", sorted(named, key=lambda decision: -decision.value)


def _decide_by_head(
    loaded: LoadedDefinition[Any],
    head: str,
    rows: Sequence[ShownText],
    logits: Sequence[NDArray[np.float32]],
) -> tuple[Kind, list[Decision]]:
    """Return the kind of decisions that a head makes, and the decisions.

    Args:
        rows: the text as a row of tokens; of a multiple choice, one row for each choice.
        logits: the head's logits for each row, fp32 [positions, outputs].
    """
    definition, row = loaded.definition, rows[0]
    if head == "masked_lm":
        return "masks", _fill_masks(loaded, row, logits[0])
    if head == "replaced_token":
        return "replaced", _find_replaced(row, logits[0])
    # Outputs as the task decodes them: of heads that read every token, an array for each row.
    outputs = list(logits) if head in TOKEN_HEADS else np.concatenate(logits)
    (prediction,) = definition.decode(outputs, row.encoded, [row.example])
    if head == "tag":
        return "tags", _label_words(definition, row, prediction)
    if head == "answer":
        return "answers", _find_answers(row, prediction)
    if head == "regress":
        return "number", [Decision("", prediction.value, target=Target.of(0, 0))]
    if head == "choose":
        choices = zip(row.example.choices, prediction.probabilities, strict=True)
        named = [
            Decision(choice, probability, color=number, target=Target.of(0, 0), row=number)
            for number, (choice, probability) in enumerate(choices)
        ]
    else:
        named = [
            Decision(
                label_name(label),
                probability,
                color=label_id,
                target=Target.of(0, label_id),
                label_id=label_id,
            )
            for label_id, (label, probability) in enumerate(prediction.probabilities.items())
        ]
    kind: Kind = "choices" if head == "choose" else "labels"
    return kind, sorted(named, key=lambda decision: -decision.value)


def _fill_masks(
    loaded: LoadedDefinition[Any], row: ShownText, logits: NDArray[np.float32]
) -> list[Decision]:
    """List the likeliest words for each [MASK], in the order of the text."""
    definition, tokenizer = loaded.definition, loaded.tokenizer
    if not isinstance(definition, FillMask):
        return []
    positions = np.flatnonzero(row.ids == tokenizer.mask_id).tolist()
    if not positions:
        return []
    probabilities = torch.from_numpy(logits)[:, : tokenizer.vocab_size].softmax(-1)
    likeliest = definition.find_likeliest(probabilities).tolist()
    decisions = []
    for position, words in zip(positions, likeliest, strict=True):
        piece = row.pieces[position]
        for id_, probability in words:
            word = tokenizer.decode([int(id_)]).strip()
            target = Target.of(position, int(id_))
            decisions.append(_decide_on_piece(piece, word, probability, target))
    return decisions


def _decide_on_piece(
    piece: ShownPiece, label: str, probability: float, target: Target, color: int = 0
) -> Decision:
    """Return a decision about a single token."""
    return Decision(
        label,
        probability,
        piece.token,
        part=piece.part,
        start=piece.start,
        end=piece.end,
        color=color,
        target=target,
    )


def _find_replaced(row: ShownText, logits: NDArray[np.float32]) -> list[Decision]:
    """List the tokens that an ELECTRA takes for replaced."""
    probabilities = torch.from_numpy(logits).flatten().sigmoid().tolist()
    decisions = []
    for position, (piece, probability) in enumerate(zip(row.pieces, probabilities, strict=True)):
        if piece.part is not None and probability >= MIN_REPLACED_PROBABILITY:
            target = Target.of(position, 0)
            # `WRONG` is the color of what is wrong on any page.
            decisions.append(_decide_on_piece(piece, "replaced", probability, target, WRONG))
    return decisions


def _label_words(definition: Tag, row: ShownText, prediction: Any) -> list[Decision]:
    """List the entities, or each word if the labels do not form entities.

    The logit of an entity is the sum of the logits of its words' labels.
    """
    offsets = row.example.offsets
    first_tokens = row.encoded.alignment[0].tokens.tolist() if offsets else []
    label_ids = {name: number for number, name in enumerate(definition.labels)}
    if definition.scheme == "plain":
        colored_names = list(definition.labels)
        spans = [
            (label, start, end, probability)
            for (start, end), label, probability in zip(
                offsets, prediction.label_names, prediction.label_probabilities, strict=True
            )
        ]
    else:
        colored_names = list(span_types(definition.labels, definition.scheme))
        spans = [
            (entity.label, entity.start, entity.end, entity.probability)
            for entity in prediction.entities
        ]
    decisions = []
    for label, start, end, probability in spans:
        words = [
            number
            for number, (word_start, word_end) in enumerate(offsets)
            if word_start < end and word_end > start
        ]
        cells = tuple(
            (first_tokens[word], label_ids[prediction.label_names[word]])
            for word in words
            if prediction.label_names[word] in label_ids
        )
        color = colored_names.index(label) if label in colored_names else 0
        target = Target(cells) if cells else None
        text = row.texts[0][start:end]
        decisions.append(
            Decision(
                label, probability, text, part=0, start=start, end=end, color=color, target=target
            )
        )
    return decisions


def _find_answers(row: ShownText, prediction: Any) -> list[Decision]:
    """List the best answers, the predicted one first.

    The logit of an answer is the sum of the logits of its start and its end.
    """
    decisions = []
    for candidate in prediction.candidates():
        tokens = row.tokens_of(part=1, start=candidate.start, end=candidate.end)
        # The head has two outputs for each token: 0 as the start of the answer, 1 as its end.
        target = Target(((tokens[0], 0), (tokens[-1], 1))) if tokens else None
        decisions.append(
            Decision(
                "answer",
                candidate.probability,
                text=candidate.text,
                part=1,
                start=candidate.start,
                end=candidate.end,
                target=target,
            )
        )
    if not prediction.is_answered:
        # Start and end of the empty answer are at the first token, [CLS].
        nothing = Decision("no answer", prediction.probability, target=Target(((0, 0), (0, 1))))
        decisions.insert(0, nothing)
    return decisions
