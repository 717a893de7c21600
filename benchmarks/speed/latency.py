"""Latency: one text at a time, one thread, a model of base size, against onnxruntime.

Weights are random, since only time is measured. Each call takes another text of 32 tokens, and
tokenizes it, too. The result of a turn is the median over its calls.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.speed import encoding
from benchmarks.speed.contest import Claim, Contest, call
from benchmarks.speed.plan import Plan

NUM_TOKENS = 32
THREADS = 1


def checks(plan: Plan) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield nothing: the check of encoding holds for this size too."""
    return iter(())


def contests(plan: Plan) -> Iterator[Contest]:
    """Yield the only contest."""
    folder = plan.work / "base"
    if not folder.exists():
        vocabulary = plan.file("vocabs/bert-base-uncased")
        call("benchmarks.speed.latency:write", plan, vocabulary=vocabulary, out=folder)
    contenders = encoding.contenders(plan, folder, THREADS, slice_size=1, length=NUM_TOKENS)
    ours = tuple(each.name for each in contenders if each.name.startswith("bertsmith"))
    what = "latency, one text of 32 tokens, base"
    yield Contest(
        title="Latency, one text of 32 tokens, base",
        unit="ms",
        contenders=contenders,
        claims=[
            Claim(what, ours, ("onnxruntime fp32",), is_shown=True),
            Claim(what, ours, ("onnxruntime int8",), is_shown=True),
        ],
        notes=["Random weights, one thread; medians over single calls."],
        threads=THREADS,
    )


def write(vocabulary: str, out: str) -> None:
    """Write a model folder of base size with random weights."""
    import torch

    from bertsmith.model.bert import BertModel
    from bertsmith.model.config import BertConfig
    from bertsmith.model.saving import save_model
    from bertsmith.system.files import atomic_dir
    from bertsmith.tokenization.auto import load_tokenizer

    tokenizer = load_tokenizer(vocabulary)
    torch.manual_seed(0)
    with atomic_dir(Path(out)) as folder:
        config = BertConfig.from_preset("base", tokenizer.vocab_size)
        save_model(BertModel(config), folder, tokenizer)
