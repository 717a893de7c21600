"""Batches to vectors and logits: BERT and its relatives, their heads, Hugging Face folders."""
