"""Looks inside GPT, Transformer and T5: what their heads attend to, and which words decide.

Such a model is called a system here. A *part* is attention of one kind: an encoder–decoder has
three, such as that of the target to the source. A *decision* is a token that the system writes, or
would write next, with its probability.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.errors import ConfigError, InputError, option
from bertsmith.errors.model_kinds import name_of_family
from bertsmith.inspection.decisions import Decision
from bertsmith.inspection.explanations import MAX_EXPLAINED, count_explained, count_points
from bertsmith.inspection.head_statistics import StatisticsSum
from bertsmith.inspection.heads_by_name import parse_heads
from bertsmith.inspection.look_result import Look, shown_path
from bertsmith.inspection.neurons import plain_neurons
from bertsmith.inspection.page_limits import count_page_tokens
from bertsmith.inspection.plain_values import (
    ALPHABET,
    format_weights,
    likely_words,
    plain_attribution,
    plain_decision,
    plain_piece,
    plain_statistics,
)
from bertsmith.inspection.run_steps import choose_checkpoints, step_of, wrong_model_error
from bertsmith.inspection.saliency import Attribution, Target, integrate_until_complete
from bertsmith.inspection.shown_text import (
    ShownPiece,
    check_given_texts,
    format_token,
    number_words,
    special_piece,
)
from bertsmith.inspection.system_reader import (
    ShownEncoderDecoder,
    ShownGpt,
    ShownSystem,
    SystemOutputs,
    count_heads,
)
from bertsmith.lineage.encoder_decoder import generate_targets
from bertsmith.lineage.generation import start_token_id
from bertsmith.lineage.gpt import Gpt
from bertsmith.lineage.gpt_folder import load_gpt
from bertsmith.lineage.t5 import T5
from bertsmith.lineage.t5_folder import load_t5
from bertsmith.lineage.transformer import Transformer
from bertsmith.lineage.transformer_folder import load_transformer
from bertsmith.model.hub import find_checkpoint
from bertsmith.system.hardware import select_device
from bertsmith.system.progress import tracked
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 512
"""Maximum number of tokens of a source or target, if the model has no limit of its own."""
NUM_NEXT = 5
"""Number of the likeliest next tokens that the page lists."""


@dataclass(frozen=True, eq=False)
class SystemInput:
    """A system and the texts that it is given, split into tokens.

    `reader` holds the model and the token ids of the sequences that it reads: a text, or a source
    and a target. `pieces` are the tokens of each sequence, for people. `num_all` is the
    number of all tokens before the sequences were cut. `next_id` is the token after the shown
    target: the end token if the target is whole; None if it is unknown, or if there is no target.
    """

    reader: ShownSystem
    texts: tuple[str, ...]
    pieces: tuple[tuple[ShownPiece, ...], ...]
    num_all: int
    tokenizer: Tokenizer
    next_id: int | None = None


class SystemLook(Look):
    """The inside of a system while it reads a text, or a source and a target.

    `parts` has the attention weights by the name of each part, such as "the target to the source",
    for each layer fp32 [heads, rows, columns]; `attentions` are those of the last part.
    `logits`, fp32 [tokens, vocabulary], are those of the next token, for each token of the last
    sequence.
    """

    def __init__(
        self,
        data: dict[str, Any],
        inputs: SystemInput,
        outputs: SystemOutputs,
        decisions: Sequence[Decision],
        attributions: Sequence[Attribution | None],
    ) -> None:
        tokens = [piece.token for pieces in inputs.pieces for piece in pieces]
        super().__init__(data, tokens, inputs.num_all)
        self.decisions = decisions
        logits = inputs.reader.next_token_logits(outputs.hidden_states[-1])
        self.logits: NDArray[np.float32] = logits.numpy()
        self.parts = {
            part.name: [weights.numpy() for weights in layers]
            for part, layers in zip(inputs.reader.parts, outputs.attentions, strict=True)
        }
        self._attributions = attributions

    @property
    def attentions(self) -> list[NDArray[np.float32]]:
        return list(self.parts.values())[-1]

    @property
    def attributions(self) -> Sequence[Attribution | None]:
        return self._attributions


def read_by_system(
    path: str | Path,
    model_type: str,
    text: str,
    pair: Sequence[str],
    *,
    max_length: int | None = None,
    device: str = "auto",
) -> SystemInput:
    """Load a system and let it read the texts.

    Args:
        path: a model folder, or a name on the Hugging Face hub.
        model_type: a key of `INPUT_BUILDERS`.
        pair: the target, for a model that writes; otherwise empty.

    Raises:
        InputError: a text is empty, or there is one too many.
        ConfigError: there is no such device or length.
        CheckpointError: the folder cannot be loaded.
    """
    check_given_texts(text, pair)
    return INPUT_BUILDERS[model_type](Path(find_checkpoint(path)), text, pair, max_length, device)


def look_at_system(
    path: str | Path,
    model_type: str,
    inputs: SystemInput,
    *,
    checkpoints: bool = False,
    without: Sequence[str] = (),
    words: bool = False,
    language: str = "en",
) -> SystemLook:
    """Look inside a system while it reads the texts of `inputs`.

    Args:
        path: the folder that `inputs` came from, whose checkpoints may be shown.
        model_type: the `model_type` of the folder.
        checkpoints: whether to look at the checkpoints of the folder's run as well.
        without: names of attention heads such as "2.1"; the decisions without them are shown, too.
        words: whether the page first shows words instead of tokens.
        language: the language of the page, "en" or "zh".

    Raises:
        ConfigError: there is no such head.
        CheckpointError: its checkpoints are missing, or of another model.
    """
    reader = inputs.reader
    first = reader.parts[0]
    # The token that takes the place of each word in the baseline of attributions, if there is one.
    mask = None
    if reader.baseline_id is not None:
        mask = inputs.tokenizer.id_to_token(reader.baseline_id)
    if without and len(reader.parts) > 1:
        raise ConfigError(
            f"{option('without')}: this model has several kinds of heads, so a number does not say "
            "which one is meant. Leave it out."
        )
    heads = sorted(parse_heads(without, first.layers, first.heads))
    outputs = reader.compute()
    decisions = _decide(inputs, outputs)
    attributions = _explain(inputs, decisions)
    without_heads = None
    if heads:
        names = [f"{layer + 1}.{head + 1}" for layer, head in heads]
        changed = _decide(inputs, reader.compute(heads))
        without_heads = {"heads": names, "decisions": list(map(plain_decision, changed))}
    last = reader.parts[-1]  # the part that the page shows first
    steps, num_steps = _look_at_steps(inputs, path, outputs) if checkpoints else ([], 0)
    data = {
        "folder": shown_path(path),
        "family": model_type,
        "familyName": name_of_family(model_type),
        "layers": last.layers,
        "heads": last.heads,
        "language": language,
        "words": words,
        "texts": inputs.texts,
        "sequences": [list(map(plain_piece, pieces)) for pieces in inputs.pieces],
        "blocks": [
            {
                "name": part.name,
                "layers": part.layers,
                "heads": part.heads,
                # indices in "sequences" of the queries and of the keys
                "rows": part.rows,
                "columns": part.columns,
            }
            for part in reader.parts
        ],
        "numAll": inputs.num_all,
        "kind": "next",
        "mask": mask,
        "alphabet": ALPHABET,
        # The last frame is of the model itself, so it has no step.
        "frames": [*steps, _frame(None, outputs, decisions)],
        "neurons": plain_neurons(outputs.head_vectors),
        "hidesWords": True,  # a word that is written attends only to those before it
        "numSteps": num_steps,
        "saliency": list(map(plain_attribution, attributions)),
        "without": without_heads,
        "lens": {
            "tokens": [
                likely_words(inputs.tokenizer, reader.next_token_logits(hidden).numpy())
                for hidden in outputs.hidden_states
            ]
        },
        "statistics": _statistics(inputs, outputs),
        "map": None,
    }
    return SystemLook(data, inputs, outputs, decisions, attributions)


def _look_at_steps(
    inputs: SystemInput, folder: str | Path, outputs: SystemOutputs
) -> tuple[list[dict[str, Any]], int]:
    """Compute the frame of each shown checkpoint; also return how many checkpoints the run has.

    All checkpoints read the same tokens: the ones that the model of the folder reads or writes.

    Raises:
        CheckpointError: there is no checkpoint, or one is damaged or of another model.
    """
    num_weights = sum(weights.numel() for layers in outputs.attentions for weights in layers)
    chosen, count = choose_checkpoints(folder, num_weights)
    frames = []
    for path in tracked(chosen, "looking at checkpoints"):
        model = LOADERS[type(inputs.reader.model)](path)
        fingerprint = load_tokenizer(path).fingerprint
        if (
            model.config != inputs.reader.model.config
            or fingerprint != inputs.tokenizer.fingerprint
        ):
            raise wrong_model_error(path, folder)
        reader = inputs.reader.with_model(model.to(inputs.reader.word.weight.device))
        other = reader.compute()
        frames.append(_frame(step_of(path), other, _decide(replace(inputs, reader=reader), other)))
    return frames, count


def _frame(
    step: int | None, outputs: SystemOutputs, decisions: Sequence[Decision]
) -> dict[str, Any]:
    """Return the part of the page's data that differs between the checkpoints of a run."""
    weights = [format_weights(layers) for layers in outputs.attentions]
    return {"step": step, "weights": weights, "decisions": list(map(plain_decision, decisions))}


def _read_gpt(
    path: Path, text: str, pair: Sequence[str], max_length: int | None, device: str
) -> SystemInput:
    """Load a GPT, and encode the text with the start token before it."""
    if pair:
        raise InputError(f"{option('pair')}: a GPT reads one text. Leave it out.")
    model = load_gpt(path).to(select_device(device)).requires_grad_(False)
    tokenizer = load_tokenizer(path)
    config = model.config
    limit = _limit_length(max_length, config.n_positions, config.n_layer * config.n_head)
    start = start_token_id(model, tokenizer)
    ids, pieces = _encode_user_text(tokenizer, text, text_index=0)
    # One of the shown tokens is the start token.
    shown = (special_piece(tokenizer, start), *pieces[: limit - 1])
    reader = ShownGpt(model, [start, *ids[: limit - 1]], kept_ids=(start,))
    num_all = 1 + len(ids)
    return SystemInput(reader, (text,), (number_words(shown),), num_all, tokenizer)


def _read_transformer(
    path: Path, text: str, pair: Sequence[str], max_length: int | None, device: str
) -> SystemInput:
    return _read_encoder_decoder(load_transformer(path), path, text, pair, max_length, device)


def _read_t5(
    path: Path, text: str, pair: Sequence[str], max_length: int | None, device: str
) -> SystemInput:
    return _read_encoder_decoder(load_t5(path), path, text, pair, max_length, device)


def _read_encoder_decoder(
    model: Transformer | T5,
    path: Path,
    text: str,
    pair: Sequence[str],
    max_length: int | None,
    device: str,
) -> SystemInput:
    """Encode source and target; without a given target, the model writes it."""
    if len(pair) > 1:
        raise InputError(f"{option('pair')}: found {len(pair)} texts. Give one, the target.")
    model = model.to(select_device(device)).requires_grad_(False)
    tokenizer = load_tokenizer(path)
    encoder_heads, decoder_heads = count_heads(model)
    # A decoder layer has heads for the target and heads for the source.
    num_heads = len(model.encoder) * encoder_heads + 2 * len(model.decoder) * decoder_heads
    limit = _limit_length(max_length, model.longest or DEFAULT_MAX_TOKENS, num_heads)
    ids, pieces = _encode_user_text(tokenizer, text, text_index=0)
    source = [*ids[: limit - 1], model.end_id]
    if pair:
        target_ids, target_pieces = _encode_user_text(tokenizer, pair[0], text_index=1)
        target_text = pair[0]
        answer = [*target_ids, model.end_id]
    else:
        (answer,) = generate_targets(model, [source], max_new_tokens=limit - 1)
        target_ids = [id_ for id_ in answer if id_ != model.end_id]
        target_text, target_pieces = _decode(tokenizer, target_ids, text_index=1)
    num_all = 2 + len(ids) + len(target_ids)
    target_ids, target_pieces = target_ids[: limit - 1], target_pieces[: limit - 1]
    # The token after the shown ones; None if the generation ended without the end token.
    next_id = answer[len(target_ids)] if len(target_ids) < len(answer) else None
    # A T5 normalizes the vectors that it reads, so all points of a path from zero look alike to it.
    baseline_id = tokenizer.unk_id if isinstance(model, T5) else None
    reader = ShownEncoderDecoder(model, source, [model.start_id, *target_ids], baseline_id)
    shown = (
        number_words((*pieces[: limit - 1], special_piece(tokenizer, model.end_id))),
        number_words((special_piece(tokenizer, model.start_id), *target_pieces)),
    )
    return SystemInput(reader, (text, target_text), shown, num_all, tokenizer, next_id)


LOADERS: Mapping[type, Callable[[Path], Any]] = {
    Gpt: load_gpt,
    Transformer: load_transformer,
    T5: load_t5,
}
"""Maps the class of a model to the function that loads the folder of a checkpoint."""
BuildInput = Callable[[Path, str, Sequence[str], int | None, str], SystemInput]
INPUT_BUILDERS: dict[str, BuildInput] = {
    "gpt2": _read_gpt,
    "marian": _read_transformer,
    "t5": _read_t5,
}
"""Maps the `model_type` of each system that can be looked into to the function that loads its
folder and reads the texts."""


def _limit_length(max_length: int | None, longest: int, num_heads: int) -> int:
    """Return how many tokens of a sequence are shown.

    By default, fewer tokens are shown of a model with many heads, since the page holds the weights
    of each head.

    Raises:
        ConfigError: the user asks for a number of tokens that the model cannot read.
    """
    if max_length is None:
        return min(longest, count_page_tokens(num_heads))
    if not 2 <= max_length <= longest:
        raise ConfigError(
            f"{option('max_length')}: found {max_length}; allowed are 2 to {longest} tokens. "
            "Choose a number in that range."
        )
    return max_length


def _encode(tokenizer: Tokenizer, text: str, text_index: int) -> tuple[list[int], list[ShownPiece]]:
    """Encode a text without special tokens, and locate its tokens.

    The words of its pieces are numbered from 0; `number_words` numbers those of a whole sequence.
    `text_index` is 0 for the text or source, 1 for the target.
    """
    encoding = tokenizer.encode(text)
    ids: list[int] = []
    pieces: list[ShownPiece] = []
    word = -1
    for id_, sequence, (start, end) in zip(
        encoding.ids, encoding.sequence_ids, encoding.offsets, strict=True
    ):
        if sequence is None:  # a special token
            continue
        if not pieces or not tokenizer.continues_word[id_]:
            word += 1
        ids.append(id_)
        label = format_token(tokenizer, id_, text[start:end])
        pieces.append(ShownPiece(label, text_index, start, end, word))
    return ids, pieces


def _encode_user_text(
    tokenizer: Tokenizer, text: str, text_index: int
) -> tuple[list[int], list[ShownPiece]]:
    """Encode a text of the user without special tokens, and locate its tokens.

    Raises:
        InputError: there is no token in it.
    """
    ids, pieces = _encode(tokenizer, text, text_index)
    if not ids:
        name = option("pair") if text_index else "text"
        raise InputError(
            f"{name}: the tokenizer finds no token in it. Give a text with a word in it."
        )
    return ids, pieces


def _decode(
    tokenizer: Tokenizer, ids: Sequence[int], text_index: int
) -> tuple[str, list[ShownPiece]]:
    """Decode generated ids to a text, and locate each token in it."""
    if all(id_ < tokenizer.vocab_size for id_ in ids):
        text = tokenizer.decode(ids)
        ids_of_text, pieces = _encode(tokenizer, text, text_index)
        if ids_of_text == list(ids):
            return text, pieces
    # The text has other tokens than the model generated: join the tokens with spaces instead.
    labels = [format_token(tokenizer, id_, "") for id_ in ids]
    pieces = []
    start = 0
    for word, label in enumerate(labels):
        pieces.append(ShownPiece(label, text_index, start, start + len(label), word))
        start += len(label) + 1
    return " ".join(labels), pieces


def _decide(inputs: SystemInput, outputs: SystemOutputs) -> list[Decision]:
    """List the likeliest next tokens of a text, or each token of a target with its probability."""
    tokenizer = inputs.tokenizer
    probabilities = inputs.reader.next_token_logits(outputs.hidden_states[-1]).softmax(-1)
    if isinstance(inputs.reader, ShownEncoderDecoder):
        # The decoder reads [start, *target]: its vector at position i predicts target[i].
        target = inputs.reader.sequences[1][1:]
        following = [] if inputs.next_id is None else [inputs.next_id]
        cells = list(enumerate([*target, *following]))
    else:
        last = len(probabilities) - 1
        likeliest = probabilities[last].topk(min(NUM_NEXT, probabilities.shape[1])).indices
        cells = [(last, id_) for id_ in likeliest.tolist()]
    return [
        Decision(
            format_token(tokenizer, id_, ""),
            float(probabilities[position, id_]),
            target=Target.of(position, id_),
        )
        for position, id_ in cells
    ]


def _explain(inputs: SystemInput, decisions: Sequence[Decision]) -> list[Attribution | None]:
    """Attribute the first decisions, as many as a limit on operations allows; None for others."""
    reader = inputs.reader
    num_tokens = sum(map(len, reader.sequences))
    num_weights = sum(part.numel() for layer in reader.layers() for part in layer.parameters())
    count = count_explained(num_weights, num_tokens, MAX_EXPLAINED)
    targets = [decision.target for decision in decisions[:count] if decision.target is not None]
    max_points = count_points(num_weights, num_tokens, len(targets))
    with torch.enable_grad():
        results = integrate_until_complete(
            reader.compute_target_logits, reader.embed_path_ends(), targets, max_points
        )
    return [*results, *[None] * (len(decisions) - len(results))]


def _statistics(inputs: SystemInput, outputs: SystemOutputs) -> dict[str, Any] | None:
    """Compute the statistics of the heads; None if there are several kinds of heads."""
    reader = inputs.reader
    if len(reader.parts) > 1:
        return None
    part = reader.parts[0]
    total = StatisticsSum(part.layers, part.heads)
    (ids,) = reader.sequences
    total.add_lengths([len(ids)])
    is_separator = torch.tensor(ids) == inputs.tokenizer.sep_id
    for layer, weights in enumerate(outputs.attentions[0]):
        total.add_weights(layer, weights, is_separator)
    return plain_statistics(total.result(), source=None)
