"""The routes of text-embeddings-inference, a file for each kind.

Bodies, answers, headers and errors are those of its version 1.9, with three exceptions. A request
with too many texts gets the status 413, as its OpenAPI says. Token ids in place of texts are
refused, because ids of another tokenizer would give wrong vectors without an error. And long texts
for /predict and /rerank are cut only at their end (`check_cut_at_end`).
"""
