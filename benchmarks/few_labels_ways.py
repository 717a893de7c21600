"""The names of the ways that the benchmark of few labels compares, and of their figures."""

from typing import Any

PUBLISHED = "all-MiniLM-L6-v2"
WORDS = "TF-IDF and logistic regression"
AUTO = "`--head auto`"
HEADS = {
    "counts": "token counts",
    "linear": "linear head",
    "contrastive": "contrastive head",
    "fine-tuned": "fine-tuned",
    "average": "mean of three fine-tuned",
    "auto": AUTO,
}
CORPUS = "linear head and a corpus"
"""The linear head that learns from the texts of `--corpus`, too, which have no labels."""
AUTO_WITH_CORPUS = f"{AUTO} and a corpus"
AVERAGE_WITH_CORPUS = "mean of three fine-tuned, and of a linear head and a corpus"
"""As `finetune classify --seeds 3 --average --corpus`: the linear head has half of the weight."""
SETFIT = f"{PUBLISHED}, SetFit 1.2"
MODEL2VEC = f"{PUBLISHED} as model2vec, logistic regression"
SPEED = "training_texts_per_core_second"
"""Texts that an encoder learns from, in pairs, per second of a core: without loading the model,
fitting the head and saving both."""
CALIBRATION = "calibration_error"
"""Mean difference between the probability of an answer and how often such answers are right
(expected calibration error, Guo et al. 2017)."""
Figures = dict[str, Any]
"""The figures of a way on one sample, by their names: accuracy, seconds, …"""


def setfit_name(iterations: int | None, in_bf16: bool) -> str:
    """Name SetFit with its number of iterations and its precision, if they are not the defaults."""
    name = SETFIT if iterations is None else f"{SETFIT}, {iterations} iterations"
    return f"{name}, in bf16" if in_bf16 else name
