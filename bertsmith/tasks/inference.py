"""Loading a model folder for inference, and computing many texts in their order.

Texts of similar length share a forward pass with a limited number of real tokens, so that memory
depends neither on the longest text nor on the size of a file. In fp32 on a CPU, with one thread or
two, the outputs of a text have the same bytes in any batch (docs/architecture.md, "The same bytes
in any batch"). The same holds in int8 if attention is computed in fp32. In bf16 and on a GPU the
outputs may differ by rounding.
"""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch, pack
from bertsmith.data.encoded_texts import EncodedTexts, max_text_length
from bertsmith.data.length_groups import divide_by_length
from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.errors.model_kinds import ModelKindError
from bertsmith.model.attention_paths import attention_paths
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import PROBLEM_TYPES, model_kind
from bertsmith.model.electra_pair import suggest_masked_lm_folder
from bertsmith.model.head_names import TRAINING_COMMANDS
from bertsmith.model.int8 import can_quantize, quantize
from bertsmith.model.load_report import list_weights
from bertsmith.model.loading import build
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.precision_speeds import slower_note
from bertsmith.model.prepacked import prepack
from bertsmith.system.hardware import select_device, select_precision
from bertsmith.system.matrix_products import DTYPES
from bertsmith.system.threads import map_on_threads, on_usable_threads
from bertsmith.system.torch_modes import usual_modes
from bertsmith.tokenization.tokenizer import Tokenizer

BYTES_PER_FORWARD_PASS = 6144
"""Size of a forward pass without gradients: number of real tokens times the bytes of an activation
(4 in fp32). The passes of a call have at most this size on average; a single pass may exceed it by
its longest text (`divide_by_length`). So a pass has about 1,536 tokens in fp32 and in int8 (which
outputs fp32), and 3,072 in bf16. On a CPU each thread computes a pass of its own. With 4,096 tokens
all-MiniLM-L6-v2 took 1.4 times as long in int8 and the same time in bf16 (one thread of a Zen 4).
On processors with AMX, bf16 is a sixth faster with 3,072 tokens than with 1,536."""

MIN_TOKENS_ALONE = 128
"""Fewest real tokens per thread for which each thread computes a forward pass of its own. With
fewer, one pass by all threads is as fast (all-MiniLM-L6-v2, two threads of a Zen 4)."""

InferencePrecision = Literal["fp32", "bf16", "int8"]

_KINDS_OF_HEADS = {
    "classify": "classification",
    "multi_label": "multi-label",
    "regress": "regression",
    "tag": "token classification",
    "answer": "question answering",
    "choose": "multiple choice",
}
MISSING_HEAD = {
    head: f"the model has no {kind} head. Train one with {TRAINING_COMMANDS[head]} on this folder, "
    "and use the folder that it writes."
    for head, kind in _KINDS_OF_HEADS.items()
}
"""Messages about a model without a head that a task needs, by the name of the head."""


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, its tokenizer and its maximum length in tokens.

    The model is for inference only: its weights may be rounded to int8 or bf16, or stored in the
    order in which the processor multiplies fastest ("prepacked").
    """

    folder: ModelFolder
    """The folder that the model was read from, with its parsed files."""
    model: BertModel
    tokenizer: Tokenizer
    max_length: int
    precision: InferencePrecision = "fp32"
    requested_length: int | None = None
    """The requested `max_length`; None if it was not given and the folder's length applies."""
    requested_precision: str = "auto"
    """The requested precision, which may be "auto"; `precision` is the one that was chosen."""

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the head's outputs, in order."""
        return tuple(name for _, name in sorted(self.model.id2label.items()))

    @property
    def precision_note(self) -> str | None:
        """A hint to use fp32 if this machine computes fp32 as fast as `precision`; else None."""
        return slower_note(self.precision) if self.device.type == "cpu" else None

    def reload(self, heads: Sequence[str], device: str, precision: str) -> "LoadedModel":
        """Load the folder again, for another device or in another precision.

        Raises:
            CheckpointError: the folder no longer exists, or was changed.
            ConfigError: this machine has no such device or precision.
        """
        folder = read_folder(self.folder.path)
        # The folder may be the temporary one of an estimator (a class with scikit-learn's methods),
        # which is deleted when its first `ModelFolder` is freed. This finalizer does nothing, but
        # its argument, the first one, lives as long as `folder`.
        weakref.finalize(folder, lambda first: None, self.folder)
        return load_for_inference(
            folder,
            heads=heads,
            device=device,
            precision=precision,
            max_length=self.requested_length,
        )


@usual_modes()  # whatever modes of torch the caller has set, such as autocast
def load_for_inference(
    folder: ModelFolder,
    *,
    heads: Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
    packed: bool = True,
) -> LoadedModel:
    """Load a folder whose model has one of `heads`; an error about a missing head names the first.

    Without `heads`, only the encoder is needed. The head computes in fp32 in any precision, so that
    probabilities are not rounded to bf16. `max_length` counts tokens, special ones included. If
    `packed` is false, the model stays in fp32 with plain layers, so that gradients can be computed.
    Otherwise `set_precision` may replace its linear layers by faster ones.

    Raises:
        CheckpointError: the folder is incomplete, lacks the heads, has one of another kind, or its
            vocabulary does not fit its weights.
        ConfigError: this machine has no such device or precision, or the model cannot read so many
            tokens.
    """
    path = folder.path
    model = build(folder)
    if heads and not any(head in model.heads for head in heads):
        if heads[0] in PROBLEM_TYPES:  # heads of sequence classifiers
            # If the model has another one of these heads, this error says which.
            folder.check_classifier(heads[0])
        if heads[0] == "masked_lm":
            advice = suggest_masked_lm_folder(path)
            raise ModelKindError(path, model_kind(folder.settings), "fill", advice)
        raise CheckpointError(f"{path}: {MISSING_HEAD[heads[0]]}")
    # The report lists the weights that the model has and its files lack.
    if model.load_report is not None and (missing := model.load_report.missing):
        raise CheckpointError(
            f"{path}: {len(missing)} weights that predictions need are missing: "
            f"{list_weights(missing)}. Copy or download the whole checkpoint again, or "
            "fine-tune it, which begins with new ones."
        )
    tokenizer = folder.tokenizer
    # The requested length or else the tokenizer's, at most what the model reads.
    limit = max_text_length(tokenizer, model.config.max_length, max_length)
    torch_device = select_device(device)
    chosen: InferencePrecision = "fp32"
    if packed:
        chosen = set_precision(model, precision, torch_device)
    return LoadedModel(
        folder,
        model.to(torch_device).eval(),
        tokenizer,
        limit,
        precision=chosen,
        requested_length=max_length,
        requested_precision=precision,
    )


def set_precision(model: BertModel, name: str, device: torch.device) -> InferencePrecision:
    """Set a model's precision: fp32, bf16, int8, or auto; return the precision that was chosen.

    `auto` takes bf16 where this machine computes in it clearly faster, else fp32. On a CPU the
    linear layers are replaced: by int8 ones, or by prepacked ones, whose weights are stored in the
    order in which the processor multiplies fastest.

    Raises:
        ConfigError: there is no such precision, or the model or this machine has no int8.
    """
    if device.type == "cpu":
        # This measures once which way to compute attention is fastest. It is called here, while no
        # thread computes; otherwise each thread would measure on its own later.
        attention_paths()
    if name == "int8":
        if model.config.is_recurrent or model.config.writes_labels:
            kind = "a T5" if model.config.writes_labels else "an LSTM, GRU or ELMo"
            raise ConfigError(
                f"precision: int8 is not computed by {kind}; allowed are auto, fp32 and bf16."
            )
        if device.type != "cpu" or not can_quantize():
            raise ConfigError(
                f"precision: int8 is not computed here (device {device.type}); allowed are auto, "
                f"fp32 and bf16. int8 needs {option('device', 'cpu')} and a torch with oneDNN."
            )
        attention_precision = select_precision("auto", device)
        quantize(model, DTYPES[attention_precision])
        # Whether a text has outputs of the same bytes in any batch.
        model.is_batch_invariant = attention_precision == "fp32"
        return "int8"
    if name not in ("auto", *DTYPES):
        raise SettingError("precision", name, ("auto", "fp32", "bf16", "int8"))
    chosen = select_precision(name, device)
    set_dtype(model, DTYPES[chosen])
    if device.type == "cpu":
        prepack(model)
        model.is_batch_invariant = chosen == "fp32" and not model.config.is_recurrent
    return chosen


def set_dtype(model: BertModel, dtype: torch.dtype) -> None:
    """Convert a model's weights, except its heads and recurrent layers, which stay fp32."""
    fp32_parts = ("heads", "layers") if model.config.is_recurrent else ("heads",)
    for name, part in model.named_children():
        part.to(torch.float32 if name in fp32_parts else dtype)


def compute_in_order(
    model: BertModel, texts: EncodedTexts, compute: Callable[[BertModel, Batch], Tensor]
) -> NDArray[np.float32]:
    """Compute one row for each text, in the order of the texts, fp32 `[texts, columns]`.

    `texts` are rows of token ids. `compute` returns `[sequences, columns]` in its batch's order.
    The model computes without dropout or gradients and is left in the mode it was in.
    """
    make_batch = partial(pack_texts, texts)
    rows: list[Tensor] = []
    indices: list[int] = []
    for group, outputs in compute_groups(model, texts.lengths, make_batch, compute):
        rows.append(outputs)
        indices += group
    return torch.cat(rows).numpy()[np.argsort(indices)]


def compute_tokens_in_order(
    model: BertModel, texts: EncodedTexts, compute: Callable[[BertModel, Batch], Tensor]
) -> list[NDArray[np.float32]]:
    """Compute an array for each text, in the order of the texts, fp32 `[tokens, columns]`.

    `texts` are rows of token ids. `compute` returns `[tokens, columns]` for a packed batch, one row
    without padding. The model computes without dropout or gradients and is left in the mode it was
    in.
    """
    make_batch = partial(pack_texts, texts)
    arrays: list[NDArray[np.float32]] = [np.empty((0, 0), np.float32)] * len(texts)
    for group, outputs in compute_groups(model, texts.lengths, make_batch, compute):
        lengths = [texts.lengths[index] for index in group]
        for index, outputs_of_text in zip(group, torch.split(outputs, lengths), strict=True):
            arrays[index] = outputs_of_text.numpy()
    return arrays


def compute_groups(
    model: BertModel,
    lengths: Sequence[int],
    make_batch: Callable[[Sequence[int]], Batch],
    compute: Callable[[BertModel, Batch], Tensor],
) -> Iterator[tuple[list[int], Tensor]]:
    """Divide sequences into groups of similar length; yield each group's indices and outputs.

    The outputs are in fp32 and on the CPU, in the order of the yielded indices.

    `make_batch` packs the sequences at the indices that it receives, which are sorted by length,
    longest first. `compute` returns `[sequences, ...]` or `[tokens, ...]` for a batch, and the
    yielded outputs have the same shape.
    """
    device = model.device

    def compute_group(group: list[int]) -> tuple[list[int], Tensor]:
        batch = make_batch(group)
        # `usual_modes` also holds on the threads that compute other groups.
        with usual_modes(), torch.inference_mode():
            outputs = compute(model, batch.to(device)).float().cpu()
        # `order` has the batch's sequences as indices into `group`.
        return [group[index] for index in batch.order], outputs

    was_training = model.training
    if was_training:
        model.eval()
    try:
        with on_usable_threads():  # not more threads than a container has cores
            max_tokens = BYTES_PER_FORWARD_PASS // model.embeddings.word.weight.element_size()
            num_tokens = sum(lengths)
            num_groups = math.ceil(num_tokens / max_tokens)
            num_threads = torch.get_num_threads() if device.type == "cpu" else 1
            on_threads = num_tokens >= num_threads * MIN_TOKENS_ALONE and num_threads > 1
            if on_threads:  # equally many groups for each thread
                num_groups = num_threads * math.ceil(num_groups / num_threads)
            groups = divide_by_length(lengths, num_groups)
            if on_threads:
                yield from map_on_threads(compute_group, groups)
            else:
                yield from map(compute_group, groups)
    finally:
        if was_training:
            model.train()


def pack_texts(texts: EncodedTexts, indices: Sequence[int]) -> Batch:
    """Pack the texts at `indices`; the batch's `order` holds positions in `indices`."""
    return pack([texts.ids[i] for i in indices], [texts.type_ids[i] for i in indices])
