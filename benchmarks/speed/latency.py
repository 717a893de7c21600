"""Latency: one text at a time, one thread, a model of base size, against onnxruntime.

Weights are random, since only time is measured; the texts have 32 tokens and take turns. Tokenizing
is part of the work. What counts is the median over the calls of a turn.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed import encoding, onnx_peer
from benchmarks.speed.contest import Claim, Contender, Contest, call
from benchmarks.speed.plan import Plan
from benchmarks.speed.protocol import Gate

HERE = "benchmarks.speed.latency"
NUM_TOKENS = 32
THREADS = 1


def checks(plan: Plan) -> Iterator[tuple[str, dict[str, float]]]:
    """Nothing of its own: the check of encoding holds for this size too."""
    return iter(())


def contests(plan: Plan) -> Iterator[Contest]:
    """The only one."""
    texts = encoding.prepare(plan)
    folder = plan.work / "base"
    if not folder.exists():
        call(f"{HERE}:write", plan, vocabulary=plan.file("vocabs/bert-base-uncased"), out=folder)
    problem = encoding.exported(plan, folder, plan.work / "onnx-base")
    shared = {"texts": str(texts), "folder": str(folder)}
    ours = encoding.our_precisions(plan)
    contenders = [
        *(
            Contender(name, f"{HERE}:bertsmith", {**shared, "precision": precision})
            for name, precision in ours
        ),
        *(
            Contender(
                f"onnxruntime {precision}",
                f"{HERE}:onnxruntime",
                {**shared, "model": str(plan.work / "onnx-base" / f"{precision}.onnx")},
                problem=problem,
            )
            for precision in ("fp32", "int8")
        ),
    ]
    names = tuple(name for name, _ in ours)
    what = "one text of 32 tokens, base, p50"
    yield Contest(
        title="Latency, one text of 32 tokens, base",
        unit="ms",
        contenders=contenders,
        claims=[
            Claim("R10 fp32", what, names, ("onnxruntime fp32",), (1.5, 2)),
            Claim("R10 int8", what, names, ("onnxruntime int8",), (1.0, 1.2)),
        ],
        notes=["Random weights, one thread; medians over single calls."],
        threads=THREADS,
    )


def write(vocabulary: str, out: str) -> None:
    """A model folder of base size with random weights."""
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


def bertsmith(gate: Gate, *, texts: str, folder: str, precision: str) -> None:
    """`bertsmith.load(folder).encode(text)`."""
    from bertsmith.system.process_options import configure_process

    configure_process()
    from bertsmith import load

    model: Any = load(folder, device="cpu", precision=precision)
    chosen = short_texts(texts)
    gate.wait(precision=precision)
    while True:
        for text in chosen:
            model.encode(text)
            gate.step(1)


def onnxruntime(gate: Gate, *, texts: str, folder: str, model: str) -> None:
    """An exported model in its session."""
    tokenizer = str(Path(folder) / "tokenizer.json")
    encoder = onnx_peer.Encoder(model, tokenizer, THREADS, encoding.MAX_LENGTH)
    chosen = short_texts(texts)
    gate.wait(precision=Path(model).stem)
    while True:
        for text in chosen:
            encoder([text])
            gate.step(1)


def short_texts(texts: str) -> Sequence[str]:
    """Sentences of 32 tokens."""
    sized = json.loads(Path(texts).read_text(encoding="utf-8"))
    return [text for text, length in sized if length == NUM_TOKENS]
