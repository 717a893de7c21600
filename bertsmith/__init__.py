"""From raw text to a working BERT, on the hardware you have.

`pretrain` makes a BERT of texts; `TextClassifier` and the other estimators teach it a task, with
scikit-learn's methods; `load` opens what they save. Names are imported when first used, so that
`import bertsmith` is instant and the tokenizer works without torch. docs/architecture.md says where
each thing is.
"""

import os
from typing import TYPE_CHECKING, Any

from bertsmith._version import __version__

if TYPE_CHECKING:
    from bertsmith.data.incomplete_rows import IncompleteRowError
    from bertsmith.errors import BertsmithError
    from bertsmith.estimators.pretrain import Pretrained, pretrain
    from bertsmith.estimators.reading import MultipleChoice, QuestionAnswerer
    from bertsmith.estimators.sentences import SentenceEncoder
    from bertsmith.estimators.texts import TextClassifier, TextRegressor
    from bertsmith.estimators.words import TokenClassifier
    from bertsmith.inspection.look import look
    from bertsmith.inspection.look_result import Look
    from bertsmith.model.bert import BertModel
    from bertsmith.model.config import BertConfig
    from bertsmith.model.loading import load_model
    from bertsmith.model.saving import save_model
    from bertsmith.tasks.auto import load
    from bertsmith.tasks.predictor import Predictor
    from bertsmith.tokenization.auto import load_tokenizer
    from bertsmith.tokenization.tokenizer import Tokenizer
    from bertsmith.training.callback import Callback, Status

# torch reads this when it is imported. By default, a waiting thread of GNU OpenMP spins (polls
# without sleeping) for milliseconds, even while the thread that it waits for gets no core. Beside
# two other busy processes on two cores, training then fell below 3,000 tokens/s; with short spins
# it reached 36,000. On idle cores, short spins cost a little: 61,000 tokens/s in place of 64,000.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__all__ = [
    "BertConfig",
    "BertModel",
    "BertsmithError",
    "Callback",
    "IncompleteRowError",
    "Look",
    "MultipleChoice",
    "Predictor",
    "Pretrained",
    "QuestionAnswerer",
    "SentenceEncoder",
    "Status",
    "TextClassifier",
    "TextRegressor",
    "TokenClassifier",
    "Tokenizer",
    "__version__",
    "load",
    "load_model",
    "load_tokenizer",
    "look",
    "pretrain",
    "save_model",
]

_MODULES = {
    "BertConfig": "bertsmith.model.config",
    "BertModel": "bertsmith.model.bert",
    "BertsmithError": "bertsmith.errors",
    "Callback": "bertsmith.training.callback",
    "IncompleteRowError": "bertsmith.data.incomplete_rows",
    "Look": "bertsmith.inspection.look_result",
    "MultipleChoice": "bertsmith.estimators.reading",
    "Predictor": "bertsmith.tasks.predictor",
    "Pretrained": "bertsmith.estimators.pretrain",
    "QuestionAnswerer": "bertsmith.estimators.reading",
    "SentenceEncoder": "bertsmith.estimators.sentences",
    "Status": "bertsmith.training.callback",
    "TextClassifier": "bertsmith.estimators.texts",
    "TextRegressor": "bertsmith.estimators.texts",
    "TokenClassifier": "bertsmith.estimators.words",
    "Tokenizer": "bertsmith.tokenization.tokenizer",
    "load": "bertsmith.tasks.auto",
    "load_model": "bertsmith.model.loading",
    "load_tokenizer": "bertsmith.tokenization.auto",
    "look": "bertsmith.inspection.look",
    "pretrain": "bertsmith.estimators.pretrain",
    "save_model": "bertsmith.model.saving",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'bertsmith' has no attribute '{name}'")
    import importlib
    import random

    state = random.getstate()  # rich draws random numbers when it is imported
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    finally:
        random.setstate(state)


def __dir__() -> list[str]:
    return __all__
