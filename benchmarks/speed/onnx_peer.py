"""onnxruntime as a contender, which computes the vectors of texts.

torch exports the model, and onnxruntime's own optimizer for BERT fuses its operations. For int8 the
weights are quantized column by column, and the inputs while they are computed. Texts are sorted by
length and padded to the longest of their batch. The vectors are means over tokens.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BATCH_SIZE = 32


def export(folder: str, out: str) -> None:
    """Write `fp32.onnx` and `int8.onnx` for the BERT in a Hugging Face folder."""
    import onnx
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertModel

    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    class Vectors(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            output = self.model(input_ids, attention_mask, token_type_ids)
            return output.last_hidden_state

    inputs = ("input_ids", "attention_mask", "token_type_ids")
    example = torch.ones(2, 16, dtype=torch.int64)
    axes = {0: "rows", 1: "length"}
    # The older of torch's two exporters: of its graph, onnxruntime's optimizer fuses attention and
    # embeddings too (46 nodes are left, not 183).
    torch.onnx.export(
        Vectors().eval(),
        (example, example, torch.zeros_like(example)),
        target / "exported.onnx",
        input_names=list(inputs),
        output_names=["last_hidden_state"],
        dynamic_axes=dict.fromkeys((*inputs, "last_hidden_state"), axes),
        dynamo=False,
    )
    config = model.config
    fused = optimize_model(
        str(target / "exported.onnx"),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
    )
    fused.save_model_to_file(str(target / "fp32.onnx"))
    quantize_dynamic(
        target / "fp32.onnx",
        target / "int8.onnx",
        weight_type=QuantType.QInt8,
        per_channel=True,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


class Encoder:
    """Texts to their vectors `[texts, hidden]`, fp32."""

    def __init__(self, model: str, tokenizer: str, threads: int, max_length: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length)
        self._names = {entry.name for entry in self._session.get_inputs()}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts; vectors are in their order."""
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        batches = [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]
        vectors = [self._encode([rows[place] for place in batch]) for batch in batches]
        return np.concatenate(vectors)[np.argsort(order)]

    def _encode(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Compute the mean vectors of a batch, longest row first."""
        ids = np.zeros((len(rows), len(rows[0])), dtype=np.int64)
        for row, target in zip(rows, ids, strict=True):
            target[: len(row)] = row
        lengths = np.array([len(row) for row in rows])[:, None]
        mask = (np.arange(ids.shape[1]) < lengths).astype(np.int64)
        inputs: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
        }
        feed = {name: value for name, value in inputs.items() if name in self._names}
        hidden = self._session.run(["last_hidden_state"], feed)[0]
        means: np.ndarray = (hidden * mask[..., None]).sum(1) / lengths
        return means.astype(np.float32)
