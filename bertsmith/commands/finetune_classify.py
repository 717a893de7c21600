"""`bertsmith finetune classify`: labelled texts → a model that sorts texts into your classes."""

import json as json_module
import sys
from typing import Annotated

import tyro

from bertsmith.finetune import ClassifySettings, finetune_classify
from bertsmith.training.display import Display


def main(
    settings: Annotated[ClassifySettings, tyro.conf.arg(name=""), tyro.conf.OmitArgPrefixes],
    json: bool = False,
) -> None:
    """Teach a BERT to sort texts into your classes.

    Takes a pre-trained model and two files of labelled texts: one to learn from, one to score by.
    A label may be any word or number. The result is a folder that 'bertsmith evaluate', 'bertsmith
    predict' and Hugging Face's transformers open.

    Args:
        json: Print one JSON object instead of text.
    """
    with Display() as display:
        result = finetune_classify(settings, [display])
    print(f"loaded: {result.load_report}", file=sys.stderr)
    print(json_module.dumps(result.to_json()) if json else result)
