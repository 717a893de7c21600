"""Tokenizers: characters to token ids, without torch."""
