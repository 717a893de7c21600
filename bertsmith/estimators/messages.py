"""Messages of estimators: the live view of a run, and the error before `fit`."""

import sys

from bertsmith.errors import NotFittedError
from bertsmith.system.argument_names import as_arguments
from bertsmith.training.display import Display


class PythonDisplay(Display):
    """The live view of a run, whose notes name arguments."""

    def begin(self, computing: str) -> None:
        super().begin(as_arguments(computing))


def not_fitted(name: str) -> NotFittedError:
    """Build the error of an estimator before `fit`; scikit-learn's as well, if that is loaded."""
    message = f"{name} is not fitted yet. Call fit first, or load a folder with bertsmith.load."
    kinds: tuple[type[Exception], ...] = (NotFittedError,)
    if (theirs := sys.modules.get("sklearn.exceptions")) is not None:
        kinds += (theirs.NotFittedError,)
    return type("NotFittedError", kinds, {})(message)
