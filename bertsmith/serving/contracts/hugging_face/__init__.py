"""The requests of huggingface_hub's InferenceClient, at `/` or at `/models/NAME`.

The client adds no path for a task, so the model's head decides what a body means; each task has a
file. Answers have the form of transformers' pipelines.
"""
