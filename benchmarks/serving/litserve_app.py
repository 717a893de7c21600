"""sentence-transformers behind LitServe, which gathers requests; run in a venv of its own.

python litserve_app.py PORT
"""

import os
import sys
from typing import Any

import litserve
from sentence_transformers import SentenceTransformer


class Embedder(litserve.LitAPI):
    """Answer the body of text-embeddings-inference with one text."""

    def setup(self, device: str) -> None:
        self.model = SentenceTransformer(os.environ["MODEL"], device="cpu")

    def decode_request(self, request: dict[str, Any]) -> str:
        return str(request["inputs"])

    def predict(self, texts: list[str]) -> Any:
        return self.model.encode(texts, show_progress_bar=False)

    def encode_response(self, vector: Any) -> list[list[float]]:
        return [vector.tolist()]


if __name__ == "__main__":
    api = Embedder(max_batch_size=32, batch_timeout=0.002, api_path="/embed")
    server = litserve.LitServer(api, accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
