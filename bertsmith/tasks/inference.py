"""A model folder in, a model ready to compute out; and many texts through it, in their order.

Texts of similar length share a forward pass under a budget of real tokens, so that neither a
long text nor a large file decides how much memory is used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch, group_by_length, pack
from bertsmith.data.encoded_texts import EncodedTexts, max_text_length
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.hardware import select_device, select_precision
from bertsmith.model.bert import BertModel
from bertsmith.model.huggingface import check_single_label, find_checkpoint, load_model
from bertsmith.model.int8 import can_quantize
from bertsmith.model.prepacked import prepack, quantize
from bertsmith.text.wordpiece import Tokenizer

PREDICTION_BYTES = 6144
"""Real tokens in one forward pass without gradients, times the bytes of a number: 1,536 in fp32 and
in int8 (which gives fp32), 3,072 in bf16. With 4,096 all-MiniLM-L6-v2 took 1.4 times as long in
int8, as long in bf16 (one thread of a Zen 4); with AMX bf16 gains a sixth from 1,536 to 3,072."""

InferencePrecision = Literal["fp32", "bf16", "int8"]

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

MISSING_HEAD = {
    "classify": "the model has no classification head. Train one with 'bertsmith finetune "
    "classify --model' on this folder, and use the folder that it writes.",
    "masked_lm": "the model has no masked-LM head, so it cannot fill in words. Use a folder "
    "that 'bertsmith pretrain' wrote.",
}


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, its tokenizer, and how many tokens of a text it takes.

    The model is for reading alone: its weights may be packed or rounded (model/prepacked.py).
    """

    path: Path
    model: BertModel
    tokenizer: Tokenizer
    max_length: int
    precision: InferencePrecision = "fp32"

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.embeddings.word.weight.device


def load_for_inference(
    path: str | Path,
    *,
    head: str | None,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
) -> LoadedModel:
    """Load a folder whose model has `head` (None: the encoder alone is wanted).

    The head itself always computes in fp32, so that probabilities are not rounded to bf16.

    Raises:
        CheckpointError: the folder is incomplete, lacks the head, has one of another kind, or
            its vocabulary does not fit its weights.
    """
    path = find_checkpoint(path)
    model = load_model(path)
    if head is not None and head not in model.heads:
        if head == "classify":
            check_single_label(path)
        raise CheckpointError(f"{path}: {MISSING_HEAD[head]}")
    tokenizer = Tokenizer.load(path)
    limit = max_text_length(tokenizer, model.config.max_position_embeddings, max_length)
    target = select_device(device)
    chosen = set_precision(model, precision, target)
    return LoadedModel(path, model.to(target).eval(), tokenizer, limit, chosen)


def set_precision(model: BertModel, name: str, device: torch.device) -> InferencePrecision:
    """Make a model compute in fp32, bf16 or int8 (`auto`: the faster of the first two).

    On a CPU its linear layers are prepacked; see model/prepacked.py.

    Raises:
        ConfigError: no such precision, or int8 where only fp32 and bf16 are computed.
    """
    if name == "int8":
        if device.type != "cpu" or not can_quantize():
            raise ConfigError(
                f"precision: int8 is not computed here (device {device.type}); allowed are auto, "
                "fp32 and bf16. int8 needs --device cpu and a torch with oneDNN."
            )
        quantize(model, DTYPES[select_precision("auto", device)])
        return "int8"
    if name not in ("auto", *DTYPES):
        raise ConfigError(f"precision: found '{name}'; allowed are auto, fp32, bf16 and int8.")
    chosen = select_precision(name, device)
    model.to(DTYPES[chosen])
    model.heads.float()
    if device.type == "cpu":
        prepack(model)
    return chosen


def compute_in_order(
    model: BertModel, texts: EncodedTexts, compute: Callable[[BertModel, Batch], Tensor]
) -> NDArray[np.float32]:
    """One row per text, in the order of the texts, fp32 `[texts, columns]`.

    `compute` gives `[sequences, columns]` in its batch's order. The model computes without
    dropout or gradients and is left in the mode it was in.
    """
    was_training = model.training
    if was_training:
        model.eval()
    weight = model.embeddings.word.weight
    device, max_tokens = weight.device, PREDICTION_BYTES // weight.element_size()
    rows: list[Tensor] = []
    places: list[int] = []
    with torch.inference_mode():
        for group in group_by_length(texts.lengths, max_tokens):
            batch = pack_texts(texts, group)
            rows.append(compute(model, batch.to(device)).float().cpu())
            places += [group[place] for place in batch.order]
    if was_training:
        model.train()
    in_order: NDArray[np.float32] = torch.cat(rows).numpy()[np.argsort(places)]
    return in_order


def pack_texts(texts: EncodedTexts, indices: Sequence[int]) -> Batch:
    """The texts at `indices` as one batch, whose `order` holds places in `indices`."""
    return pack([texts.ids[i] for i in indices], [texts.type_ids[i] for i in indices])
