"""Systems beside BERT: each has a file for its model, which reads like its paper."""
