"""Tasks that a BERT is fine-tuned for, such as classification, and their predictors.

The class of a task says how files become examples, how examples become rows of token ids, and how
logits become losses and predictions. A predictor is a loaded model with its task. `catalog.TASKS`
says which file holds the task of a command. The tasks in `fill_mask.py`, `text_vectors.py` and
`minimal_pairs.py` need no fine-tuning.

A text on its way to a prediction, by the example of a classifier:

1. `auto.load` reads the folder; `catalog.task_of_folder` chooses the class `Classify`, and
   `Classify.restore` returns a task with the labels that config.json names.
2. `Predictor` makes an example of the text. `TextTask.encode` (texts.py) turns it into rows of
   token ids (`EncodedExamples`): one row, or for a long text one for each window, an overlapping
   part of the text.
3. `Task.compute_outputs` (task.py) computes the logits of each row, fp32 `[rows, labels]`, in
   batches of similar length (inference.py: `compute_in_order`).
4. `TextTask.decode` (texts.py) averages a text's logits over its rows, `[texts, labels]`, and
   returns a `ClassPrediction` for each text.

A linear head, an average of several models and a T5 have classes of their own for step 1, which
inherit the rest: `LinearClassify`, `AveragedClassify`, `TextToTextClassify`.
"""
