"""transformers' Trainer as a contender, in three tunings.

"by default" computes in fp32, with rows padded to a fixed length. "tuned" follows the documentation
of transformers: bf16 autocast, "medium" fp32 products, and rows of similar length in one batch,
padded to the longest of them. "fully tuned" also has the options that bertsmith sets for its own
process (`process_options.configure_process`), but keeps freed memory of any size, as the Trainer's
logits are hundreds of megabytes. With a tiny model this makes the Trainer 1.4 to 2 times as fast.
All three compute attention in the default way of transformers; its other ways were within 3 %
(mini, base, bf16).
"""

import ctypes
import platform
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.speed.protocol import Gate

LEARNING_RATE = 1e-4
ENDLESS = 10**8
IGNORE_INDEX = -100

Row = Mapping[str, Any]


DEFAULT, TUNED, FULLY_TUNED = "by default", "tuned", "fully tuned"
TUNINGS = (DEFAULT, TUNED, FULLY_TUNED)

M_MMAP_MAX = -4
"""The option of glibc's mallopt that says how many arrays get pages of their own."""


def tune(tuning: str) -> None:
    """Configure the process. Call before importing torch."""
    if tuning == FULLY_TUNED:
        from bertsmith.system.process_options import configure_process

        configure_process()
        if platform.libc_ver()[0] == "glibc":
            ctypes.CDLL(None).mallopt(M_MMAP_MAX, 0)


def build_trainer(
    model: Any,
    rows: Sequence[Row],
    collate: Any,
    out: object,
    on_step: Callable[[Any], object] = lambda control: None,
    **arguments: Any,
) -> Any:
    """Build a Trainer that writes nothing; `on_step` is called at the end of each step."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            on_step(control)

    quiet = {"save_strategy": "no", "logging_strategy": "no", "report_to": "none"}
    fixed = {"use_cpu": True, "disable_tqdm": True, "remove_unused_columns": False, **quiet}
    return Trainer(
        model=model,
        args=TrainingArguments(output_dir=str(out), **fixed, **arguments),
        train_dataset=rows,
        data_collator=collate,
        callbacks=[Watch()],
    )


def train(
    gate: Gate, model: Any, rows: Sequence[Row], collate: "Collator", *, tuning: str, out: str
) -> None:
    """Train until the gate ends the process; the gate is called at the end of each step."""
    import torch

    tuned = tuning != DEFAULT
    torch.set_float32_matmul_precision("medium" if tuned else "highest")
    trainer = build_trainer(
        model,
        rows,
        collate,
        out,
        lambda control: gate.step(*collate.sizes.popleft()),
        max_steps=ENDLESS,
        per_device_train_batch_size=collate.batch_size,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        weight_decay=0.01,
        bf16=tuned,
        # By default the rows keep their order, so that the batches are those of bertsmith.
        train_sampling_strategy="group_by_length" if tuned else "sequential",
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    gate.wait(precision="bf16" if tuned else "fp32", parameters=parameters)
    trainer.train()


class Collator:
    """Pads rows to `length`, or if that is None to the longest row of the batch.

    `sizes` has the number of real tokens and of all tokens of each batch, in the order in which the
    batches are trained on.
    """

    def __init__(self, batch_size: int, length: int | None) -> None:
        self.batch_size = batch_size
        self.length = length
        self.sizes: deque[tuple[int, int]] = deque()

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Build tensors: `[rows, length]` of lists of tokens, `[rows]` of single numbers."""
        import torch

        lengths = [len(row["input_ids"]) for row in rows]
        longest = self.length or max(lengths)
        self.sizes.append((sum(lengths), longest * len(rows)))
        batch = {
            name: torch.tensor([_padded(name, row[name], longest) for row in rows])
            for name in rows[0]
        }
        batch["attention_mask"] = torch.tensor(
            [[1] * length + [0] * (longest - length) for length in lengths]
        )
        return batch


def _padded(name: str, values: Any, length: int) -> Any:
    if not isinstance(values, list):
        return values
    return values + [IGNORE_INDEX if name == "labels" else 0] * (length - len(values))


def compute_difference(
    ours: Any, theirs: Any, our_loss: Callable[[], Any], their_loss: Callable[[], Any]
) -> dict[str, float]:
    """Compute the difference of losses and gradients, relative to theirs."""
    import torch

    from bertsmith.model.families.bert import BERT
    from bertsmith.model.weight_names import canonical, hugging_face_names

    losses = our_loss(), their_loss()
    for loss in losses:
        loss.backward()
    expected = {
        canonical(name, BERT): parameter.grad
        for name, parameter in theirs.named_parameters()
        if parameter.grad is not None
    }
    apart = total = 0.0
    for name, parameter in ours.named_parameters():
        if parameter.grad is None:
            continue
        stacked = torch.cat(
            [expected.pop(their) for their in hugging_face_names(name, ours.config)]
        )
        apart += float((parameter.grad.double() - stacked.double()).square().sum())
        total += float(stacked.double().square().sum())
    if expected:
        raise ValueError(f"no gradient of ours for {sorted(expected)}")
    ours_value, theirs_value = (float(loss.detach()) for loss in losses)
    return {
        "loss": abs(ours_value - theirs_value) / abs(theirs_value),
        "gradients": (apart / total) ** 0.5,
    }
