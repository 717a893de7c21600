"""model2vec on a sample of labels, for benchmarks/few_labels.py; run in its own environment.

The first argument is a file with the sample, the eval rows and the encoder. The static vectors are
distilled from the encoder once, with model2vec's defaults, and kept in the folder that the second
argument names. The penalty of the logistic regression is chosen by cross-validation of the sample.
One line of JSON with the figures is printed.
"""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from model2vec import StaticModel
from model2vec.distill import distill
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Values of C, for vectors whose every dimension is standardized."""
MAX_FOLDS = 5


def load_static(encoder: str, folder: Path) -> StaticModel:
    """Load the static vectors; distill them first if there are none."""
    if not folder.is_dir():
        distill(encoder).save_pretrained(folder)
    return StaticModel.from_pretrained(folder)


def main(task_file: str, out: str) -> None:
    """Train, score and print the figures."""
    task = json.loads(Path(task_file).read_text(encoding="utf-8"))
    texts, labels = task["train"]
    model = load_static(task["model"], Path(out))
    began, began_core = time.perf_counter(), time.process_time()
    vectors = model.encode(texts)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    num_folds = min(MAX_FOLDS, *Counter(labels).values())
    if num_folds > 1:
        folds = StratifiedKFold(num_folds, shuffle=True, random_state=task["seed"])
        grid = {"logisticregression__C": STRENGTHS}
        classifier = GridSearchCV(classifier, grid, cv=folds, scoring="neg_log_loss")
    classifier.fit(vectors, labels)
    seconds, core_seconds = time.perf_counter() - began, time.process_time() - began_core
    answers = classifier.predict(model.encode(task["test"][0]))
    accuracy = float((answers == np.array(task["test"][1])).mean())
    print(json.dumps({"accuracy": accuracy, "seconds": seconds, "core_seconds": core_seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
