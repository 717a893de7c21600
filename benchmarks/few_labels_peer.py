"""SetFit on a sample of labels, for benchmarks/few_labels.py; run in an environment of its own."""

import json
import os
import sys
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments

BATCH = 16
"""Pairs of a step, SetFit's default."""


def main(task_file: str, out: str) -> None:
    task = json.loads(Path(task_file).read_text(encoding="utf-8"))
    texts, labels = task["train"]
    names = sorted(set(labels))
    rows = Dataset.from_dict({"text": texts, "label": [names.index(label) for label in labels]})
    model = SetFitModel.from_pretrained(task["model"])
    options = TrainingArguments(
        output_dir=out,
        seed=task["seed"],
        report_to="none",
        save_strategy="no",
        show_progress_bar=False,
        num_iterations=task["iterations"],
        batch_size=BATCH,
    )
    trainer = Trainer(model=model, args=options, train_dataset=rows)
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    texts = 2 * BATCH * trainer.st_trainer.state.global_step
    answers = np.asarray(model.predict(task["test"][0]))
    gold = np.array([names.index(label) for label in task["test"][1]])
    figures = {"accuracy": float((answers == gold).mean()), "seconds": seconds}
    print(json.dumps(figures | {"texts_per_second": texts / seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
