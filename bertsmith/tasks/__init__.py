"""Tasks of fine-tuning, their predictors, and the code that several tasks share.

`catalog.TASKS` says which file holds the task of a command. The tasks in `fill_mask.py`,
`text_vectors.py` and `minimal_pairs.py` need no fine-tuning.
"""
