"""Names of the columns of predictions."""

# First match wins; a label beside a prediction is the right one.
PREDICTED_LABEL_COLUMNS = (
    "predicted_label", "predicted_labels", "predicted_value", "prediction", "predicted", "pred",
    "value", "label", "labels", "score",
)  # fmt: skip
"""Columns that may hold predicted labels. A score beside a label is its probability."""
