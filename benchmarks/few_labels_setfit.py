"""SetFit on a sample of labels, for benchmarks/few_labels.py; run in an environment of its own.

The first argument is a file with the sample, the eval rows and the encoder; the second a folder for
SetFit's files. One line of JSON with the figures is printed.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments

BATCH = 16
"""Pairs of a step, SetFit's default."""


class TimedTrainer(Trainer):
    """SetFit's trainer, with the processor time in which the encoder learns from pairs."""

    encoder_seconds = 0.0
    in_bf16 = False

    def train_embeddings(self, *args: Any, **options: Any) -> None:
        began = time.process_time()
        # A cache of converted weights would outlive the step that changes them.
        with torch.autocast("cpu", torch.bfloat16, enabled=self.in_bf16, cache_enabled=False):
            super().train_embeddings(*args, **options)
        self.encoder_seconds = time.process_time() - began


def main(task_file: str, out: str) -> None:
    """Train, score and print the figures."""
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
    trainer = TimedTrainer(model=model, args=options, train_dataset=rows)
    trainer.in_bf16 = task["in_bf16"]
    began, began_core = time.perf_counter(), time.process_time()
    trainer.train()
    seconds, core_seconds = time.perf_counter() - began, time.process_time() - began_core
    num_texts = 2 * BATCH * trainer.st_trainer.state.global_step  # a pair has two
    answers = np.asarray(model.predict(task["test"][0]))
    gold = np.array([names.index(label) for label in task["test"][1]])
    figures = {
        "accuracy": float((answers == gold).mean()),
        "seconds": seconds,
        "core_seconds": core_seconds,
        "training_texts_per_core_second": num_texts / trainer.encoder_seconds,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
