"""Count of the floating-point operations of pre-training steps, by torch's own counter."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bertsmith.model.bert import BertModel
from bertsmith.pretraining.objective import Pretraining

COUNTED_ROWS = 8
"""Most rows whose operations are counted."""


def flops_per_token(objective: Pretraining, model: BertModel, step: int) -> float:
    """Count the operations of a forward and a backward pass for each real token of a step's rows.

    The model, which must be on the CPU, computes a few rows as long as those of the step. Its
    gradients are cleared afterwards. Only matrix products are counted, a multiply-add as two
    operations. On a CPU attention computes some sequences of similar length together, and pads the
    shorter ones; products with this padding are counted, too (3 % on average).
    """
    batch = objective.resized(COUNTED_ROWS, objective.eval_rows).micro_batch(step, 0)
    model.train()
    # Torch does not count its fused kernel of attention, so attention is by plain products here.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        terms = objective.losses(model, batch).values()
        torch.stack([term.sum for term in terms]).sum().backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    return counter.get_total_flops() / batch.num_tokens
