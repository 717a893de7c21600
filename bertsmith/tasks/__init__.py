"""Tasks of fine-tuning, their predictors, and what they share.

`catalog.TASKS` says which file holds the task of a command. The predictions of `fill_mask`,
`text_vectors` and `minimal_pairs` need no fine-tuning.
"""
