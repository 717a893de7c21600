"""Batches to vectors and logits: BERT, its heads, and the Hugging Face folder."""
