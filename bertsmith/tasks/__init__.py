"""Tasks of fine-tuning, their predictors, and what they share.

The tasks: `text_classification`, `multi_label_classification`, `regression`,
`token_classification`, `question_answering`, `multiple_choice`, `sentence_embedding`; without
fine-tuning `fill_mask`, `text_vectors` and `minimal_pairs`. `catalog.TASKS` is their table.
"""
