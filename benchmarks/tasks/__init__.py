"""Fine-tuning of every task of the paper against transformers' Trainer."""
