"""BERT and its relatives: encoder, heads, weights and Hugging Face folders."""
