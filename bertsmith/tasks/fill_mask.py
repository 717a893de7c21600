"""Mask filling: a text with [MASK] (RoBERTa's <mask>) in, the likeliest tokens for each out.

This is the task of masked-LM pre-training (paper, section 3.1); there is no fine-tuning for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.data.examples import Example
from bertsmith.errors import ConfigError, InputError
from bertsmith.model.bert import BertModel
from bertsmith.tasks.inference import LoadedModel, compute_tokens_in_order
from bertsmith.tasks.prediction import InferenceTask, text_example
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Word:
    """A vocabulary entry and its probability.

    `token` is its text, as transformers' `token_str`: in BERT's vocabulary `##` continues a word,
    in RoBERTa's a space begins one.
    """

    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class FilledMasks:
    """The likeliest tokens for each mask, best first, in the order of the text."""

    masks: tuple[tuple[Word, ...], ...]
    is_truncated: bool = False
    """Whether the text was longer than the model reads, so that its end was ignored."""
    num_windows = 1

    @property
    def answer(self) -> tuple[str, ...]:
        """The likeliest token for each mask."""
        return tuple(words[0].token for words in self.masks)

    def to_json(self) -> dict[str, Any]:
        masks = [[asdict(word) for word in words] for words in self.masks]
        return {"masks": masks, "is_truncated": self.is_truncated}

    def line(self, example: Example) -> str:
        """Format the likeliest tokens and the text, separated by tabs."""
        return "\t".join([" ".join(map(str.strip, self.answer)), *example.one_line()])


@dataclass(frozen=True)
class FillMask(InferenceTask[Example, FilledMasks]):
    """The `top` likeliest tokens for each mask.

    Several masks are predicted independently of each other. Special tokens are passed over;
    probabilities remain those over the whole vocabulary.
    """

    tokenizer: Tokenizer
    top: int = 5

    pipeline = "fill-mask"
    heads = ("masked_lm",)
    example_type = Example
    fields = ("text",)

    def __post_init__(self) -> None:
        if not isinstance(self.top, int) or self.top < 1:
            raise ConfigError(f"top: found {self.top}; allowed are whole numbers above 0.")

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        return cls(loaded.tokenizer)

    def example(self, record: Mapping[str, Any]) -> Example:
        """Build an example of a text with masks.

        Raises:
            InputError: there is no mask in it.
        """
        example = text_example({"text": record.get("text")})
        mask = self.tokenizer.mask_token
        if mask not in example.text:
            raise InputError(f"there is no {mask} in the text. Write {mask} in place of a word.")
        return example

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode each text to a row.

        Raises:
            InputError: a mask is not among the first `max_length` tokens.
        """
        rows = encode_texts(tokenizer, ((example.text, None) for example in examples), max_length)
        for example, ids in zip(examples, rows.ids, strict=True):
            written = example.text.count(tokenizer.mask_token)
            found = int((ids == tokenizer.mask_id).sum())
            if found < written:
                raise InputError(
                    f"only {found} of the {written} {tokenizer.mask_token} are within the "
                    f"{max_length} tokens that the model reads. Shorten the text."
                )
        return EncodedExamples.of_texts(rows)

    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[FilledMasks]:
        hidden = compute_tokens_in_order(model, encoded.rows, BertModel.encode)
        return [
            FilledMasks(self._fill(model, vectors[ids == self.tokenizer.mask_id]), num_cut > 0)
            for vectors, ids, num_cut in zip(hidden, encoded.rows.ids, encoded.num_cut, strict=True)
        ]

    def _fill(self, model: BertModel, vectors: NDArray[np.float32]) -> tuple[tuple[Word, ...], ...]:
        """Return the likeliest tokens for masks with these vectors, `[masks, hidden]`."""
        embedding = model.embeddings.word.weight
        with torch.inference_mode():
            logits = model.heads["masked_lm"](
                torch.from_numpy(vectors).to(embedding.device), embedding.float()
            )
        # An embedding may have spare rows beyond the vocabulary; they name nothing.
        probabilities = logits[:, : self.tokenizer.vocab_size].softmax(-1).cpu()
        special = torch.tensor(sorted(self.tokenizer.special_ids))
        # Below any probability, so that a special token never is among the best.
        values, ids = probabilities.index_fill(1, special, -1.0).topk(
            min(self.top, probabilities.shape[1] - len(special))
        )
        return tuple(
            tuple(Word(self.tokenizer.decode([i]), p) for i, p in zip(row_ids, row, strict=True))
            for row_ids, row in zip(ids.tolist(), values.tolist(), strict=True)
        )
