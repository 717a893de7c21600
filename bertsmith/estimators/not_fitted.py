"""The error of an estimator that is used before `fit`."""

import sys

from bertsmith.errors import NotFittedError


def not_fitted(name: str) -> NotFittedError:
    """Build the error for an estimator that is not fitted.

    If scikit-learn is loaded, the error is an instance of its NotFittedError as well.
    """
    message = (
        f"{name} is not fitted yet. Call fit first, or load a fitted one with {name}.load(folder)."
    )
    error_types: tuple[type[Exception], ...] = (NotFittedError,)
    sklearn_errors = sys.modules.get("sklearn.exceptions")
    if sklearn_errors is not None:
        error_types += (sklearn_errors.NotFittedError,)
    return type("NotFittedError", error_types, {})(message)
