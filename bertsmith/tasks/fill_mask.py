"""Mask filling: a text with [MASK] (RoBERTa's <mask>) in, the likeliest tokens for each out.

This is the task of masked-LM pre-training (paper, section 3.1); there is no fine-tuning for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import pack
from bertsmith.data.encoded_texts import as_list, check_string
from bertsmith.errors import ConfigError, InputError
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.inference import LoadedModel, load_for_inference


@dataclass(frozen=True, slots=True)
class Word:
    """A vocabulary entry and its probability.

    `token` is written as in the vocabulary: in BERT's, `##` continues a word.
    """

    token: str
    probability: float


class MaskFiller:
    """A model that is called with texts and predicts each [MASK]."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "auto", precision: str = "auto"
    ) -> "MaskFiller":
        """Load the filler from a model folder with a masked-LM head."""
        return cls(
            load_for_inference(
                read_folder(path), heads=("masked_lm",), device=device, precision=precision
            )
        )

    @overload
    def __call__(self, text: str, top: int = 5) -> list[list[Word]]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, text: Sequence[str], top: int = 5) -> list[list[list[Word]]]: ...
    def __call__(
        self, text: str | Sequence[str], top: int = 5
    ) -> list[list[Word]] | list[list[list[Word]]]:
        """Predict the `top` likeliest tokens for each [MASK], best first.

        The result has a list per mask, in the order of the text; for several texts, one such result
        each. Several masks are predicted independently of each other. Special tokens are passed
        over; probabilities remain those over the whole vocabulary.

        Raises:
            InputError: there is no [MASK] in the text, or the model cannot read as far as one.
        """
        if not isinstance(text, str):
            texts = as_list(text, "text")
            for place, one in enumerate(texts):
                check_string(f"text[{place}]", one)
            return [self(one, top) for one in texts]
        if top < 1:
            raise ConfigError(f"top: found {top}; at least 1 word is needed.")
        probabilities = self._probabilities(text)
        special = torch.tensor(sorted(self.loaded.tokenizer.special_ids))
        # Below any probability, so that a special token never is among the best.
        values, ids = probabilities.index_fill(1, special, -1.0).topk(
            min(top, probabilities.shape[1] - len(special))
        )
        token = self.loaded.tokenizer.id_to_token
        return [
            [Word(token(i), p) for i, p in zip(row_ids, row, strict=True)]
            for row_ids, row in zip(ids.tolist(), values.tolist(), strict=True)
        ]

    def _probabilities(self, text: str) -> Tensor:
        """Compute probabilities at each mask, fp32 `[masks, vocabulary]`."""
        tokenizer, model = self.loaded.tokenizer, self.loaded.model
        mask = tokenizer.mask_token
        encoding = tokenizer.encode(text, max_length=self.loaded.max_length)
        masks = [i for i, token in enumerate(encoding.ids) if token == tokenizer.mask_id]
        written = text.count(mask)
        if len(masks) < max(1, written):
            raise InputError(self._unread_mask(mask, written, len(masks)))
        batch = pack([np.asarray(encoding.ids)]).to(self.loaded.device)
        with torch.inference_mode():
            hidden = model.encode(batch)[masks]
            word_embedding = model.embeddings.word.weight
            logits: Tensor = model.heads["masked_lm"](hidden.float(), word_embedding.float())
        # An embedding may have spare rows beyond the vocabulary; they name nothing.
        return logits[:, : tokenizer.vocab_size].softmax(-1).cpu()

    def _unread_mask(self, mask: str, written: int, found: int) -> str:
        if written == 0:
            return f"there is no {mask} in the text. Write {mask} in place of a word."
        return (
            f"only {found} of the {written} {mask} are within the {self.loaded.max_length} tokens "
            "that the model reads. Shorten the text."
        )
