"""The routes of text-embeddings-inference, a file for each kind.

Bodies, answers, headers and errors are those of its version 1.9, except that a request with too
many texts is a 413, as its OpenAPI says, and that token ids in place of texts are refused: ids of
another tokenizer would give wrong vectors without a word.
"""
