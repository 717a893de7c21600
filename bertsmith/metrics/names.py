"""Names and meanings of scores for people, by keys such as `macro_f1`, and their values' format.

Some keys are of the loss terms of training, such as `mlm`; `held_out_` begins those of eval data.
"""

from bertsmith.system.counts import format_number

SCORE_NAMES = {
    "f1": "F1",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "matthews_correlation": "MCC",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "rmse": "RMSE",
    "mrr": "MRR",
    "HasAns_exact": "exact match (has answer)",
    "HasAns_f1": "F1 (has answer)",
    "NoAns_exact": "exact match (no answer)",
    "best_exact": "best exact match",
    "mlm": "masked LM",
    "lm": "next token",
    "nsp": "NSP",
    "sop": "SOP",
    "contrast": "contrastive",
    "rtd": "replaced tokens",
    "forward": "next token",
    "backward": "previous token",
    "span": "missing spans",
    "write": "target tokens",
}
"""Names of the keys, and parts of keys, whose name is not the key with spaces for underscores."""
SCORE_MEANINGS = {
    "accuracy": "share of the {examples} that are right",
    "subset_accuracy": "share of the {examples} with exactly the right labels",
    "exact_match": "share of the answers that are right word for word",
    "f1": "harmonic mean of precision and recall",
    "macro_f1": "mean F1 of the {labels}, each counting the same",
    "micro_f1": "F1 over all decisions",
    "precision": "share of the predicted ones that are right",
    "recall": "share of the right ones that were predicted",
    "matthews_correlation": "correlation with the right labels; guessing gets 0",
    "pearson": "correlation with the right numbers of the {examples}",
    "spearman": "correlation with the order of the right numbers",
    "rmse": "root mean squared error, in the unit of the numbers",
    "chance": "accuracy of guessing",
    "mrr": "mean of 1 / rank of the first right text",
    "HasAns_exact": "of the questions that have an answer",
    "HasAns_f1": "of the questions that have an answer",
    "NoAns_exact": "share of the questions without an answer that get none",
    "best_exact": "with the best threshold for giving no answer",
    "best_f1": "with the best threshold for giving no answer",
}
"""Meanings of scores in words. `{examples}` and `{labels}` are as in `score_meaning`."""


def score_name(key: str) -> str:
    """Return the name of a score.

    >>> [score_name(key) for key in ("macro_f1", "matthews_correlation", "exact_match")]
    ['macro-F1', 'MCC', 'exact match']
    >>> score_name("held_out_mlm_loss"), score_name("recall_at_5"), score_name("contrast_loss")
    ('held-out masked LM loss', 'recall at 5', 'contrastive loss')
    """
    if key in SCORE_NAMES:
        return SCORE_NAMES[key]
    prefix = ""
    if key.startswith("held_out_") and key != "held_out_":
        prefix = "held-out "
        key = key.removeprefix("held_out_")
    # The name may be a part of the key. Long names come first: macro_f1 before f1.
    for name in sorted(SCORE_NAMES, key=len, reverse=True):
        if key == name:
            return prefix + SCORE_NAMES[name]
        if key.startswith(f"{name}_"):
            return f"{prefix}{SCORE_NAMES[name]} {key.removeprefix(name + '_').replace('_', ' ')}"
        if key.endswith(f"_{name}"):
            return f"{prefix}{key.removesuffix('_' + name).replace('_', ' ')} {SCORE_NAMES[name]}"
    return prefix + key.replace("_", " ")


def score_meaning(key: str, examples: str = "texts", labels: str = "labels") -> str:
    """Return the meaning of a score in words, or "" for a key without one.

    Args:
        examples: the unit that is predicted, such as "words", or a number of them.
        labels: the kind of labels: "labels", or "types" of entities.

    >>> score_meaning("accuracy", "12 words"), score_meaning("macro_f1", labels="types")
    ('share of the 12 words that are right', 'mean F1 of the types, each counting the same')
    """
    return SCORE_MEANINGS.get(key, "").format(examples=examples, labels=labels)


def format_score(key: str, value: float, decimals: int = 4) -> str:
    """Format the value of a score; the last part of `key` says which score it is.

    >>> format_score("accuracy", 0.5), format_score("regress_rmse", 0.0000314159, decimals=3)
    ('0.5000', '0.00003142')
    """
    has_unit = key.endswith("rmse")  # errors have the labels' unit and may be of any size
    return format_number(value) if has_unit else f"{value:.{decimals}f}"
