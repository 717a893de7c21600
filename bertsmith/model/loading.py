"""Loading of models: `load_model`, and the functions that fill a model from its folder's tensors.

A model folder is what transformers' `save_pretrained` writes: config.json, weights, tokenizer. The
tables of the model's `Family` map our names of weights to those in the folder.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.config_file import CONFIG_FILE, own_settings
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.head_names import TASK_HEADS
from bertsmith.model.load_report import LoadReport, list_weights
from bertsmith.model.meta_init import on_meta_device
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.weight_names import canonical, hugging_face_names
from bertsmith.system.counts import count_noun
from bertsmith.system.torch_modes import drawing_from, usual_modes

BUFFERS = ("position_ids", "token_type_ids")
"""Names of buffers that older folders store with the embeddings; buffers are not learned."""
BUFFERS_OF_LAYERS = (".inv_freq", ".attn.bias", ".attn.masked_bias")
"""Endings of buffers that older folders store with layers: rotary wavelengths, and GPT's masks."""


def load_model(
    path: str | Path, *, heads: Sequence[str] | None = None, num_labels: int | None = None
) -> BertModel:
    """Load the model of a folder, or of the Hugging Face hub ("org/name").

    The model is in fp32, on the CPU, in evaluation mode. The hub needs the package huggingface_hub.

    Args:
        heads: names of the model's heads, or one name; by default the stored ones. A head that is
            not stored starts at random.
        num_labels: outputs of a head with labels; by default as stored. A number other than the
            stored one gives a new head.

    `model.load_report` lists the matched, missing and unused weights; `model.id2label` names the
    outputs of a stored head with labels.

    Raises:
        CheckpointError: there is no such folder or model, or it is incomplete, altered, or holds
            another kind of model.
        ConfigError: the family has no such head, or a head with labels needs `num_labels`.
    """
    return build(read_folder(path), heads, num_labels)


@usual_modes()
def build(
    folder: ModelFolder, heads: Sequence[str] | None = None, num_labels: int | None = None
) -> BertModel:
    """Build a folder's model: fp32, on the CPU, in evaluation mode.

    Args:
        folder: its tensors become those of the model.
        heads: names of the model's heads (`HEADS` in model/head_names.py), or one name; by default
            the stored ones. A head that is not stored starts at random.
        num_labels: outputs of a head with labels; by default as stored. A number other than the
            stored one gives a new head.

    `model.load_report` lists the matched, missing and unused weights; `model.id2label` names the
    outputs of a stored head with labels.

    Raises:
        CheckpointError: the folder is incomplete, altered, or holds another kind of model.
        ConfigError: the family has no such head, or a head with labels needs `num_labels`.
    """
    # All heads are initialized at random, and stored ones are then filled from the folder. If the
    # caller named no heads, all of them are stored. Their initial weights are then drawn from a
    # generator of their own, so that the caller's random state stays as it was. Otherwise they are
    # drawn from the caller's generator, as in torch, since new heads keep them.
    drawing = drawing_from(0) if heads is None else contextlib.nullcontext()
    if isinstance(heads, str):
        heads = (heads,)
    heads = folder.heads if heads is None else tuple(heads)
    task_head = folder.task_head
    keeps_task_head = task_head in heads and num_labels in (None, folder.num_outputs)
    if num_labels is None and task_head in heads:
        num_labels = folder.num_outputs
    own_folder = folder.family.own_folder
    if own_folder is not None:  # that of T5 classifiers, whose heads have no weights to draw
        own_heads = build_heads(folder.config, heads, num_labels)
        model: BertModel = own_folder.load(folder.path, folder.config, own_heads)
    else:
        with drawing:
            model = _build_encoder(folder, heads, num_labels, keep_task_head=keeps_task_head)
    if keeps_task_head:
        model.id2label = folder.labels
    # The settings of a task in config.json belong to the task's head, and are kept with it. There
    # are also tasks without a head, such as sentence vectors: then they belong to the encoder.
    has_no_heads = not heads and not task_head
    if keeps_task_head or has_no_heads:
        model.task_settings = own_settings(folder.settings)
    return model.eval()


def _build_encoder(
    folder: ModelFolder, heads: Sequence[str], num_labels: int | None, *, keep_task_head: bool
) -> BertModel:
    """Build the model of a folder whose weights `Family.names` lists, as those of encoders.

    `keep_task_head` is whether the folder's task head (such as "classify") becomes the model's.
    """
    tensors = _usable_tensors(folder, heads, keep_task_head=keep_task_head)
    _check_sizes(folder.config, tensors, folder.path)
    # Heads get random weights in memory, as the folder may lack the weights of a head. All weights
    # of the encoder come from the folder: `on_meta_device` builds the encoder without memory, and
    # `_fill` puts the folder's tensors into it.
    new_heads = build_heads(folder.config, heads, num_labels)
    pooler = None if new_heads else folder.has_pooler  # None: as the heads need it
    with on_meta_device():
        model = BertModel(folder.config, new_heads, pooler=pooler)
    missing = _fill(model, tensors, folder.path)
    model.load_report = _report(model, missing, folder.stored_names)
    _warn_unused_layers(model.load_report.unused, folder)
    _warn_unused_parts(model.load_report.unused, folder)
    return model


def _usable_tensors(
    folder: ModelFolder, heads: Sequence[str], *, keep_task_head: bool
) -> dict[str, Tensor]:
    """Take the folder's tensors, without those of stored heads that the model does not use."""
    left_out = () if keep_task_head else TASK_HEADS
    if folder.pair_head is not None and folder.pair_head not in heads:
        left_out = (*left_out, folder.pair_head)
    # ModernBERT's task heads begin with layers that its masked-LM head has, too, by the same stored
    # names. They are kept even if the task head is left out: a new head starts from them.
    shared_names = folder.family.head_names(("masked_lm",))
    names_left_out = folder.family.head_names(left_out)
    prefixes = tuple(f"{name}." for name in names_left_out if name not in shared_names)
    tensors = folder.take_tensors().items()
    return {name: tensor for name, tensor in tensors if not name.startswith(prefixes)}


def _check_sizes(config: BertConfig, tensors: Mapping[str, Tensor], directory: Path) -> None:
    """Raise CheckpointError if config.json asks for other sizes than the tensors have.

    Two matrices are compared: the word embedding and one of the first layer. The sizes decide how
    much memory new heads take, so they are compared before heads are built; `_fill` compares all
    shapes.
    """
    shapes = {"embeddings.word.weight": (config.vocab_size, config.embedding_size)}
    if config.num_layers and not config.is_recurrent:
        down = (config.hidden_size, config.intermediate_size)
        shapes["layers.0.feed_forward.down.weight"] = down
    for name, shape in shapes.items():
        (stored_name,) = hugging_face_names(name, config)
        if stored_name in tensors:
            _check_shape(tensors[stored_name], stored_name, list(shape), directory)


def _fill(model: BertModel, tensors: Mapping[str, Tensor], directory: Path) -> list[str]:
    """Put the folder's tensors into the model and return the names of missing ones.

    A missing pooler or head starts at random.

    Raises:
        CheckpointError: the encoder is not complete, a layer of the pooler or of a head is stored
            only in part, or a shape does not fit the config.
    """
    state = {}
    missing = []
    needed = []  # missing names without which the model cannot be used
    filled_layers: set[str] = set()  # layers of the pooler and of heads that have a stored weight
    absent_by_layer: dict[str, list[str]] = {}  # weights of such layers that are not stored
    # Layers may share a parameter, which then has several names. It is filled from the first of
    # them; the folder must have the same values under the others.
    first_names: dict[int, str] = {}  # first name of each parameter, by the parameter's `id`
    for name, parameter in model.state_dict(keep_vars=True).items():
        stored_names = hugging_face_names(name, model.config)
        absent = [stored for stored in stored_names if stored not in tensors]
        missing += absent
        layer = name.rpartition(".")[0]
        if not name.startswith(("pooler.", "heads.")):
            needed += absent
        elif absent:
            absent_by_layer.setdefault(layer, []).extend(absent)
        else:
            filled_layers.add(layer)
        first = first_names.setdefault(id(parameter), name)
        if first == name and not absent:
            parts = [tensors[stored] for stored in stored_names]
            state[name] = _stack(parts, stored_names, parameter.shape, directory)
        elif first in state and not absent:
            _check_copies(stored_names, hugging_face_names(first, model.config), tensors, directory)
    partly_filled = absent_by_layer.keys() & filled_layers
    needed += [name for layer in partly_filled for name in absent_by_layer[layer]]
    if needed:
        raise CheckpointError(
            f"{directory}: {count_noun(len(needed), 'weight is', 'weights are')} missing: "
            f"{list_weights(needed)}. {_advise_on_missing(model, needed, tensors)}"
        )
    model.load_state_dict(state, strict=False, assign=True)
    if model.pooler is not None and not any(name.startswith("pooler.") for name in state):
        # The folder has no pooler, so this one is still on the meta device, without memory.
        model.pooler.to_empty(device="cpu").apply(model.initialize)
    return list(dict.fromkeys(missing))


def _advise_on_missing(
    model: BertModel, needed: Sequence[str], tensors: Mapping[str, Tensor]
) -> str:
    """Advise on missing weights, `needed`, which may be stored under other names."""
    expected = _expected_names(model)
    others = [name for name in tensors if name not in expected]
    if len(others) < len(needed):
        return "Copy or download the whole checkpoint again."
    count = count_noun(
        len(others), "stored weight has another name", "stored weights have other names"
    )
    return f"{count}, such as {others[0]}. Save the weights by the names of transformers."


def _expected_names(model: BertModel) -> set[str]:
    """Return Hugging Face's names of all weights of the model."""
    return {
        name
        for own_name in model.state_dict()
        for name in hugging_face_names(own_name, model.config)
    }


def _check_copies(
    names: Sequence[str], firsts: Sequence[str], tensors: Mapping[str, Tensor], directory: Path
) -> None:
    """Raise CheckpointError if weights that config.json calls shared are not the same.

    `names` are the stored names of a layer's weights, `firsts` those of the first layer that shares
    them.
    """
    for name, first in zip(names, firsts, strict=True):
        if name != first and not torch.equal(tensors[name], tensors[first]):
            raise CheckpointError(
                f"{directory}: {name} differs from {first}, and config.json says that layers share "
                "them ('shared'). Take the folder as bertsmith wrote it, or write 'shared': "
                '"none" there.'
            )


def _stack(
    parts: Sequence[Tensor], names: Sequence[str], shape: torch.Size, directory: Path
) -> Tensor:
    """Stack tensors of the folder into one of the model, such as query, key and value, in fp32.

    `names` are their names in the folder, `shape` is that of the model's tensor.
    """
    expected = [shape[0] // len(parts), *shape[1:]]
    for part, name in zip(parts, names, strict=True):
        _check_shape(part, name, expected, directory)
    return torch.cat([part.float() for part in parts]) if len(parts) > 1 else parts[0].float()


def _check_shape(tensor: Tensor, name: str, expected: list[int], directory: Path) -> None:
    if list(tensor.shape) != expected or not tensor.is_floating_point():
        raise CheckpointError(
            f"{directory}: {name} is {tensor.dtype} {list(tensor.shape)}, config.json asks for "
            f"floating point {expected}. Use config.json and weights that were saved together."
        )


def _warn_unused_parts(unused: Sequence[str], folder: ModelFolder) -> None:
    """Warn of stored weights in layers that models of the family lack, such as adapters.

    `unused` are the names of weights that the model has no place for.
    """
    down = folder.family.names.get("layers.{i}.feed_forward.down")
    if down is None or folder.config.is_recurrent:
        return
    # Stored names of weights in layers begin with this prefix and the layer's number. In ALBERT it
    # is the number of the layer's group: there `stored_layer` is, for example, "0.albert_layers.1".
    prefix = down[0].partition("{i}")[0]
    numbers = {
        folder.config.stored_layer(number).partition(".")[0]
        for number in range(folder.config.num_layers)
    }
    in_layers = []
    for name in unused:
        match = re.match(rf"{re.escape(prefix)}(\d+)\.", canonical(name, folder.family))
        is_in_layer = match is not None and match[1] in numbers
        if is_in_layer and not name.endswith(BUFFERS_OF_LAYERS):
            in_layers.append(name)
    if in_layers:
        warn_once(
            f"{folder.path}: the layers have weights that models of the family "
            f"{folder.family.name} lack, and are computed without them: {list_weights(in_layers)}. "
            "If they are adapters, merge them into the model first."
        )


def _warn_unused_layers(unused: Sequence[str], folder: ModelFolder) -> None:
    """Warn where the weights have more layers than config.json asks for.

    `unused` are the names of weights that the model has no place for. The message names
    `num_hidden_layers`, the entry of config.json. The layers that a token goes through,
    `num_layers`, are more in an ALBERT with an `inner_group_num` above 1.
    """
    config = folder.config
    if not config.num_layers or config.is_recurrent:
        return
    next_names = hugging_face_names(f"layers.{config.num_layers}.feed_forward.down.weight", config)
    if not {canonical(name, folder.family) for name in unused}.isdisjoint(next_names):
        warn_once(
            f"{folder.files.path(CONFIG_FILE)}: num_hidden_layers is {config.num_hidden_layers}, "
            "but the weights have more layers, which are left out. If you did not mean that, "
            "correct it there; 'bertsmith compress' leaves layers out of a model's folder."
        )


def _report(model: BertModel, missing: Sequence[str], stored: Sequence[str]) -> LoadReport:
    """Compare the names of the model's weights with the names that the folder has, `stored`.

    `missing` are the names that `_fill` returned.
    """
    family = family_named(model.config.model_type)
    matched = _expected_names(model) - set(missing)
    copies = (copy for copy, original in family.tied.items() if original in matched)
    used = {*matched, *copies, *(f"{family.prefix}embeddings.{name}" for name in BUFFERS)}
    unused = [name for name in stored if canonical(name, family) not in used]
    return LoadReport(tuple(sorted(matched)), tuple(sorted(missing)), tuple(sorted(unused)))
