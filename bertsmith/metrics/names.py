"""Names of scores for people, by keys such as `macro_f1`, and the format of their values."""

from bertsmith.system.counts import format_number

SCORE_NAMES = {
    "f1": "F1",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "matthews_correlation": "MCC",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "rmse": "RMSE",
    "mae": "MAE",
    "mrr": "MRR",
    "mlm": "masked LM",
    "lm": "next token",
    "nsp": "NSP",
    "sop": "SOP",
}
"""Names of the keys, and parts of keys, whose name is not the key with spaces for underscores."""


def score_name(key: str) -> str:
    """Return the name of a score.

    >>> [score_name(key) for key in ("macro_f1", "matthews_correlation", "exact_match")]
    ['macro-F1', 'MCC', 'exact match']
    >>> score_name("held_out_mlm_loss"), score_name("recall_at_5")
    ('held-out masked LM loss', 'recall at 5')
    """
    if key in SCORE_NAMES:
        return SCORE_NAMES[key]
    before, _, rest = key.partition("held_out_")
    prefix = "held-out " if rest and not before else ""
    key = rest if prefix else key
    for name in sorted(SCORE_NAMES, key=len, reverse=True):  # macro_f1 before f1
        if key == name:
            return prefix + SCORE_NAMES[name]
        if key.startswith(f"{name}_"):
            return f"{prefix}{SCORE_NAMES[name]} {key.removeprefix(name + '_').replace('_', ' ')}"
        if key.endswith(f"_{name}"):
            return f"{prefix}{key.removesuffix('_' + name).replace('_', ' ')} {SCORE_NAMES[name]}"
    return prefix + key.replace("_", " ")


def format_score(key: str, value: float, decimals: int = 4) -> str:
    """Format the value of a score; the last part of `key` says which score it is.

    >>> format_score("accuracy", 0.5), format_score("regress_rmse", 0.0000314159, decimals=3)
    ('0.5000', '0.00003142')
    """
    has_unit = key.endswith("rmse")  # errors have the labels' unit and may be of any size
    return format_number(value) if has_unit else f"{value:.{decimals}f}"
