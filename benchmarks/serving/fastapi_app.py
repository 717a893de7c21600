"""sentence-transformers behind FastAPI, as most tutorials write it; run in a venv of its own.

A plain `def` runs in the thread pool, so requests compute at the same time, each for itself.
"""

import os

from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

app = FastAPI()
model = SentenceTransformer(os.environ["MODEL"], device="cpu")


class Texts(BaseModel):
    """The body of text-embeddings-inference."""

    inputs: str | list[str]


@app.post("/embed")
def embed(texts: Texts) -> list[list[float]]:
    """Return a vector for each text."""
    inputs = [texts.inputs] if isinstance(texts.inputs, str) else texts.inputs
    vectors: list[list[float]] = model.encode(inputs, show_progress_bar=False).tolist()
    return vectors
