"""The model without a server: milliseconds for one text, texts a second for many.

python in_process.py bertsmith|sentence-transformers MODEL TEXTS.json    prints a JSON object
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Encode = Callable[[Sequence[str]], Any]
NUM_SINGLE = 200


def load_bertsmith(folder: str) -> Encode:
    """Load the model as `bertsmith embed --precision fp32` does."""
    from bertsmith.system.process_options import configure_process

    configure_process()
    from bertsmith import load

    encode: Encode = load(folder, device="cpu", precision="fp32").encode
    return encode


def load_peer(folder: str) -> Encode:
    """Load the model in sentence-transformers, with its defaults."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(list(texts), show_progress_bar=False)


def measure(encode: Encode, texts: Sequence[str]) -> dict[str, float]:
    """Time single texts and all texts together, after a first round of each."""
    encode(texts[:64])
    singles = []
    for text in texts[:NUM_SINGLE]:
        began = time.perf_counter()
        encode([text])
        singles.append(time.perf_counter() - began)
    began = time.perf_counter()
    encode(texts)
    seconds = time.perf_counter() - began
    return {
        "single_ms": 1000 * statistics.median(singles),
        "texts_per_second": len(texts) / seconds,
    }


if __name__ == "__main__":
    library, folder, file = sys.argv[1:]
    load_model = {"bertsmith": load_bertsmith, "sentence-transformers": load_peer}[library]
    print(json.dumps(measure(load_model(folder), json.loads(Path(file).read_text("utf-8")))))
