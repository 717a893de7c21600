"""Encoding: sentences of mixed lengths to vectors, against sentence-transformers and onnxruntime.

One model (all-MiniLM-L6-v2) on sentences of Wikipedia of 3 to 128 tokens. A step is a slice of the
sentences, the same for all; each step takes the next slice. Tokenizing is part of the work. Vectors
are held against those of sentence-transformers in fp32 by their cosine.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import published_model
from benchmarks.speed import onnx_peer
from benchmarks.speed.contest import ChildError, Claim, Contender, Contest, call
from benchmarks.speed.plan import Plan
from benchmarks.speed.protocol import Gate

HERE = "benchmarks.speed.encoding"
LENGTHS = range(3, 129)
PARITY_TEXTS = 64
NUM_SLICES = 16
MAX_LENGTH = 256

Encode = Callable[[Sequence[str]], np.ndarray]


def checks(plan: Plan) -> Iterator[tuple[str, dict[str, float]]]:
    """Compute the difference of vectors in fp32."""
    texts = prepare(plan)
    yield "encoding", call(f"{HERE}:parity", plan, texts=texts)


def contests(plan: Plan) -> Iterator[Contest]:
    """Yield the only contest."""
    all_contenders = contenders(plan, published_model(), plan.threads, slice_size(plan))
    ours = tuple(each.name for each in all_contenders if each.name.startswith("bertsmith"))
    shared = {"texts": prepare(plan), "slice_size": slice_size(plan)}
    all_contenders += [
        Contender(name, f"{HERE}:peer", {**shared, "precision": precision})
        for name, precision in (
            ("sentence-transformers fp32", "fp32"),
            ("sentence-transformers bf16", "bf16"),
        )
    ]
    reduced = tuple(name for name in ours if not name.endswith("fp32"))
    yield Contest(
        title="Encoding, sentences of 3 to 128 tokens",
        unit="tokens/s",
        contenders=all_contenders,
        claims=[
            Claim("encoding", ours, ("sentence-transformers fp32",), is_shown=True),
            Claim("encoding", ours, ("onnxruntime fp32",), is_shown=True),
            Claim("encoding in fp32", ("bertsmith fp32",), ("onnxruntime fp32",)),
            Claim("encoding", reduced, ("onnxruntime int8",), is_shown=True),
        ],
        notes=[
            f"all-MiniLM-L6-v2, {slice_size(plan)} sentences at a time; onnxruntime: graph fused "
            "for BERT, sorted by length, batches of 32; sentence-transformers: batches of 32."
        ],
    )


def contenders(
    plan: Plan, folder: Path, threads: int, slice_size: int, length: int | None = None
) -> list[Contender]:
    """List a model in each of our precisions and in onnxruntime's.

    `length` keeps the sentences of so many tokens; vectors are compared without it alone.
    """
    options = {"texts": prepare(plan), "folder": folder, "slice_size": slice_size,
               "length": length}  # fmt: skip
    out, problem = plan.work / f"onnx-{folder.name}", None
    if not (out / "int8.onnx").exists():
        try:
            call("benchmarks.speed.onnx_peer:export", plan, folder=folder, out=out)
        except ChildError as error:
            problem = f"the export failed: {error}"
    return [
        *(
            Contender(f"bertsmith {name}", f"{HERE}:bertsmith", {**options, "precision": name})
            for name in ("fp32", "bf16", "int8")
        ),
        *(
            Contender(
                f"onnxruntime {precision}",
                f"{HERE}:onnxruntime",
                {**options, "model": out / f"{precision}.onnx", "threads": threads},
                problem=problem,
            )
            for precision in ("fp32", "int8")
        ),
    ]


def slice_size(plan: Plan) -> int:
    """Return the number of sentences in a step."""
    return 64 if plan.is_quick else 512


def prepare(plan: Plan) -> Path:
    """Write the sentences, if they are not there; gives their file."""
    target = plan.work / "sentences.json"
    if not target.exists():
        call(f"{HERE}:write", plan, source=plan.file("enwiki/valid.txt"), target=target)
    return target


def write(source: str, target: str) -> None:
    """Write sentences with their token counts, the articles mixed."""
    from bertsmith.system.files import write_json
    from bertsmith.tokenization.auto import load_tokenizer

    tokenizer = load_tokenizer(published_model())
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    texts = [text for line in lines for text in re.split(r"(?<=[.!?]) +", line) if text]
    sized = [(text, len(tokenizer.encode(text).ids)) for text in dict.fromkeys(texts)]
    kept = [entry for entry in sized if entry[1] in LENGTHS]
    np.random.default_rng(0).shuffle(kept)
    write_json(Path(target), kept)


def bertsmith(gate: Gate, *, folder: str, precision: str, **rows: Any) -> None:
    """Take part with `bertsmith.load(folder).encode(texts)`."""
    from bertsmith.system.process_options import configure_process

    configure_process()
    from bertsmith import load

    repeat(gate, load(folder, device="cpu", precision=precision).encode, precision, **rows)


def peer(gate: Gate, *, precision: str, **rows: Any) -> None:
    """Take part with `SentenceTransformer(folder).encode(texts)`."""
    repeat(gate, sentence_transformer(precision), precision, **rows)


def sentence_transformer(precision: str) -> Encode:
    """Load the peer with its defaults in fp32; in bf16 also by fp32 products, which is faster."""
    import torch
    from sentence_transformers import SentenceTransformer

    folder = str(published_model())
    if precision == "fp32":
        model = SentenceTransformer(folder, device="cpu")
    else:
        torch.set_float32_matmul_precision("medium")
        dtype = {"dtype": torch.bfloat16}
        model = SentenceTransformer(folder, device="cpu", model_kwargs=dtype)

    def encode(texts: Sequence[str]) -> np.ndarray:
        vectors = model.encode(list(texts), show_progress_bar=False, convert_to_numpy=False)
        return torch.stack(list(vectors)).float().numpy()

    return encode


def onnxruntime(gate: Gate, *, folder: str, model: str, threads: int, **rows: Any) -> None:
    """Take part with an exported model in its session."""
    encoder = onnx_peer.Encoder(model, str(Path(folder) / "tokenizer.json"), threads, MAX_LENGTH)
    repeat(gate, encoder, Path(model).stem, **rows)


def repeat(
    gate: Gate, encode: Encode, precision: str, texts: str, slice_size: int,
    length: int | None = None,
) -> None:  # fmt: skip
    """Encode slice after slice for ever."""
    sized: list[tuple[str, int]] = json.loads(Path(texts).read_text(encoding="utf-8"))
    facts: dict[str, Any] = {"precision": precision}
    if length is None:
        expected: np.ndarray = np.load(Path(texts).with_suffix(".npy"))
        vectors = encode([text for text, _ in sized[:PARITY_TEXTS]])
        facts["least_cosine"] = least_cosine(vectors, expected)
        sized = sized[: NUM_SLICES * slice_size]
    else:
        sized = [each for each in sized if each[1] == length]
    slices = [sized[start : start + slice_size] for start in range(0, len(sized), slice_size)]
    gate.wait(**facts)
    while True:
        for part in slices:
            encode([text for text, _ in part])
            gate.step(sum(size for _, size in part))


def least_cosine(vectors: np.ndarray, expected: np.ndarray) -> float:
    """Compute the smallest cosine between two vectors of the same text; both [texts, hidden]."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
    return float(((vectors * expected).sum(1) / lengths).min())


def parity(texts: str) -> dict[str, float]:
    """Compute the largest difference between entries of normalized vectors, in fp32."""
    from bertsmith import load

    sized = json.loads(Path(texts).read_text(encoding="utf-8"))[:PARITY_TEXTS]
    chosen = [text for text, _ in sized]
    expected = sentence_transformer("fp32")(chosen)
    np.save(Path(texts).with_suffix(".npy"), expected)
    ours: Any = load(published_model(), device="cpu", precision="fp32")
    vectors = ours.encode(chosen)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return {"vectors": float(np.abs(vectors - expected).max())}
