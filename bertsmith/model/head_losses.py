"""Losses of `forward(labels=...)` from padded labels, as transformers' models compute them.

The training commands use losses of their own (`tasks/losses.py`, `masked_lm_loss.py`), which sum
over packed rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.errors import InputError
from bertsmith.model.padding import check_is_tensor


def head_loss(head: str, logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean loss of a head over padded logits, an fp32 scalar.

    Shapes of `logits`: those of `ModelOutput.logits`, of any floating dtype. Shapes of `labels` by
    head: "masked_lm" and "tag" int64 [batch, length]; "classify", "choose", "next_sentence" and
    "sentence_order" int64 [batch]; "regress" [batch]; "multi_label" 0 or 1 [batch, labels]. A class
    of -100 is ignored.

    Raises:
        InputError: another shape, or a class that the head lacks; the message names its place.
    """
    logits = logits.float()
    if head == "regress":
        logits = logits.squeeze(-1)
    has_classes = head not in ("regress", "multi_label")
    expected = logits.shape[:-1] if has_classes else logits.shape
    labels = check_labels(head, labels, expected)
    if head == "regress":
        return F.mse_loss(logits, labels.to(logits.dtype))
    if head == "multi_label":
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    labels = labels.long()
    _check_classes(labels, logits.shape[-1])
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE_INDEX)


def check_labels(head: str, labels: Tensor, shape: torch.Size) -> Tensor:
    """Return labels, of any dtype, in `shape`; an additional last dimension of 1 is removed.

    Raises:
        InputError: another shape, or no tensor.
    """
    check_is_tensor("labels", labels, str(list(shape)))
    if labels.shape != shape and labels.shape != (*shape, 1):
        raise InputError(
            f"labels has the shape {list(labels.shape)}. For the head {head!r} and this input it "
            f"must be {list(shape)}."
        )
    return labels.view(shape)


def replaced_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean loss of replaced-token detection over real tokens, an fp32 scalar.

    Source: Clark et al. 2020, section 2. `logits`, of any floating dtype, and `labels` are
    [tokens]; a label is 1 where the token was replaced, else 0.
    """
    return F.binary_cross_entropy_with_logits(logits.float(), labels.float())


def answer_loss(logits: Tensor, is_real: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Compute the mean loss of an answer's start and end from logits [batch, length, 2].

    It is an fp32 scalar. Only real tokens can be chosen: `is_real` is bool [batch, length]. (The
    softmax of transformers' models includes padding.) `starts` and `ends` are int64 [batch].
    Positions at or beyond the length are ignored, as for answers that were cut off. Negative ones
    count as 0. Both are as in transformers.

    Raises:
        InputError: no tensor, another shape, or a position at padding.
    """
    length = is_real.shape[1]
    losses = []
    for number, (name, positions) in enumerate({"start": starts, "end": ends}.items()):
        checked = _check_positions(f"{name}_positions", positions, is_real)
        scores = logits[..., number].float().masked_fill(~is_real, -torch.inf)
        losses.append(F.cross_entropy(scores, checked, ignore_index=length))
    return torch.stack(losses).mean()


def _check_positions(name: str, positions: Tensor, is_real: Tensor) -> Tensor:
    """Return positions as int64 [batch]: negative ones as 0, those beyond the length as the length.

    Raises:
        InputError: no tensor, another shape, or a position at padding.
    """
    rows, length = is_real.shape
    check_is_tensor(name, positions, f"[{rows}]")
    if positions.numel() != rows:
        raise InputError(f"{name} has the shape {list(positions.shape)}. It must be [{rows}].")
    flat_positions = positions.view(-1).long().clamp(0, length)
    # The added column stands for the position `length`, which says that there is no answer.
    is_wrong = ~F.pad(is_real, (0, 1), value=True).gather(1, flat_positions[:, None]).squeeze(1)
    if is_wrong.any():
        row = int(is_wrong.nonzero()[0])
        raise InputError(
            f"{name}, row {row}: found {int(flat_positions[row])}, which is padding. Give a "
            f"token's position, or {length} where the row has no answer in it."
        )
    return flat_positions


def _check_classes(labels: Tensor, num_classes: int) -> None:
    """Raise InputError, which names row and column, for a class that the head lacks."""
    wrong = ((labels < 0) & (labels != IGNORE_INDEX)) | (labels >= num_classes)
    if not wrong.any():
        return
    indices = wrong.nonzero()[0].tolist()
    names = zip(("row", "column"), indices, strict=False)  # labels of whole texts have no column
    raise InputError(
        f"labels, {', '.join(f'{name} {number}' for name, number in names)}: found "
        f"{int(labels[tuple(indices)])}. This head has classes 0 to {num_classes - 1}, and "
        f"{IGNORE_INDEX} is ignored."
    )
