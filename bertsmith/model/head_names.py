"""Names of a model's heads, grouped by what the heads compute."""

from bertsmith.model.pretraining_catalog import OBJECTIVES, PAIR_TASKS

PAIR_HEADS = tuple(name for name, task in PAIR_TASKS.items() if task.has_head)
"""Heads that classify the relation of a row's two segments."""
OBJECTIVE_HEADS = tuple(dict.fromkeys(entry.head for entry in OBJECTIVES.values()))
"""Heads that predict something of each token, or of each chosen one. Each is here once, even if
several objectives use it."""
PRETRAINING_HEADS = (*OBJECTIVE_HEADS, *PAIR_HEADS)
CLASS_HEADS = ("classify", "multi_label")
"""Heads that predict one class or several for a whole text. A GPT, LSTM, GRU or ELMo can have them,
too."""
LABEL_HEADS = ("classify", "multi_label", "tag")
"""Heads with an output per label."""
NUMBER_HEADS = ("regress", "choose")
"""Heads with one output: a number for a text, or the score of one of several choices."""
TASK_HEADS = (*LABEL_HEADS, *NUMBER_HEADS, "answer")
"""Heads that are fine-tuned for a task."""
HEADS = (*PRETRAINING_HEADS, *TASK_HEADS)
TRAINING_COMMANDS = {
    "classify": "'bertsmith finetune classify --model'",
    "multi_label": "'bertsmith finetune classify --multi-label --model'",
    "regress": "'bertsmith finetune regress --model'",
    "tag": "'bertsmith finetune tag --model'",
    "answer": "'bertsmith finetune answer --model'",
    "choose": "'bertsmith finetune choose --model'",
}
"""Beginnings of the commands that train the heads of tasks, for messages."""

LINEAR_HEAD_FILE = "linear_head.safetensors"
"""File of a head that is fitted to the vectors of a frozen encoder (tasks/linear_head.py)."""
MEMBERS_FOLDER = "members"
"""Folder of the other models whose probabilities are averaged with those of the model beside it
(tasks/averaged_classification.py)."""
MEMBERS = "members"
"""Key, in the settings of a task, under which the names of the models in `MEMBERS_FOLDER` stand."""
LINEAR_MEMBER = "linear"
"""Name, among these models, of a linear head (finetuning/linear_member.py)."""
