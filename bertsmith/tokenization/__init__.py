"""Tokenizers and vocabulary learning: characters to token ids, without torch."""
