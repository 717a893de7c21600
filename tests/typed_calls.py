"""Calls as users write them, which `make check` gives to mypy: the public names have types.

Nothing runs this file. mypy also reports a line that says `type: ignore` and holds no mistake.
"""

import numpy as np
from numpy.typing import NDArray

import bertsmith

model: bertsmith.Pretrained = bertsmith.pretrain(["A text."], text_column="text", steps=2)
model = bertsmith.pretrain((line for line in ["a"]), tokenizer="t", deduplicate=True)
bertsmith.pretrain({"text": ["A text."]}, out=model.out)
bertsmith.pretrain(3)  # type: ignore[arg-type]
bertsmith.pretrain("a.txt", tokenizer=3)  # type: ignore[arg-type]
encoder = bertsmith.SentenceEncoder(model, pooling="mean").fit([("a", "b")], [1.0], eval=0.2)
vectors: NDArray[np.float32] = encoder.encode(["a"], batch_size=2, show_progress=True)
label: str = bertsmith.load("m", task="classify")("a film").label
answers: list[str] = [each.answer for each in bertsmith.load("m", task="answer")([("q", "p")])]
clf = bertsmith.TextClassifier("m", epochs=3.0, class_weights={"spam": 2.0}).fit(["a"], [1])
bertsmith.TextClassifier("m", epoch=3)  # type: ignore[call-arg]
bertsmith.TextClassifier("m", epochs="3")  # type: ignore[arg-type]
