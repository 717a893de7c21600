"""Texts to a tokenizer: learning (`train.py`), extending, pruning."""
