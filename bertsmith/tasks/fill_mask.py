"""Mask filling: the likeliest tokens for each [MASK] (in RoBERTa <mask>) of a text.

This is the task of masked-LM pre-training (Devlin et al. 2019, section 3.1), so it needs no
fine-tuning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.data.examples import Example
from bertsmith.errors import InputError, SettingError
from bertsmith.model.bert import BertModel
from bertsmith.model.masked_lm_loss import MAX_LOGITS
from bertsmith.tasks.inference import LoadedModel, compute_groups, pack_texts
from bertsmith.tasks.mask_prediction import FilledMasks, ScoredToken, normalize_masks
from bertsmith.tasks.prediction import InferenceTask, single_text
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class FillMask(InferenceTask[Example, FilledMasks]):
    """The `top` likeliest tokens for each mask.

    Several masks are predicted independently of each other. Special tokens are left out of the
    likeliest tokens, but probabilities are over the whole vocabulary, special tokens included.
    """

    tokenizer: Tokenizer
    top: int = 5

    pipeline = "fill-mask"  # the tag of the Hugging Face pipeline
    heads = ("masked_lm",)
    example_type = Example
    fields = ("text",)  # the keys of an example that is given as a dictionary
    titles = ("tokens", "text")  # of the columns in which predictions are shown

    def __post_init__(self) -> None:
        if not isinstance(self.top, int) or self.top < 1:
            raise SettingError("top", self.top, "a whole number above 0")

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        return cls(loaded.tokenizer)

    def example(self, record: Mapping[str, Any]) -> Example:
        """Build an example of a text with masks.

        Raises:
            InputError: there is no mask in it.
        """
        mask = self.tokenizer.mask_token
        text = normalize_masks(single_text(record), mask)
        if mask not in text:
            raise InputError(f"text: found no {mask} in it. Write {mask} in place of a word.")
        return Example(text, row=record.get("row", 0))

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode each text to a row; `labelled` changes nothing, since texts have no labels here.

        Raises:
            InputError: a mask is not among the first `max_length` tokens.
        """
        rows = encode_texts(tokenizer, ((example.text, None) for example in examples), max_length)
        for example, ids in zip(examples, rows.ids, strict=True):
            num_masks = example.text.count(tokenizer.mask_token)
            num_read = int((ids == tokenizer.mask_id).sum())
            if num_read < num_masks:
                raise InputError(
                    f"text: found {num_read} of its {num_masks} {tokenizer.mask_token} within the "
                    f"{max_length} tokens that the model reads. Shorten the text."
                )
        return EncodedExamples.of_texts(rows)

    def compute_outputs(
        self, model: BertModel, encoded: EncodedExamples
    ) -> list[NDArray[np.float32]]:
        rows = encoded.rows
        make_batch = partial(pack_texts, rows)
        fill = partial(self._fill_masks, model.embeddings.word.weight.detach().float())
        outputs = [np.empty((0, 0, 2), np.float32)] * len(rows)  # each is replaced below
        # A group is texts of similar length, which are computed together.
        for group, likeliest in compute_groups(model, rows.lengths, make_batch, fill):
            num_masks = [int((rows.ids[index] == self.tokenizer.mask_id).sum()) for index in group]
            for index, of_text in zip(group, torch.split(likeliest, num_masks), strict=True):
                outputs[index] = of_text.numpy()
        return outputs

    def decode(
        self,
        outputs: list[NDArray[np.float32]],
        encoded: EncodedExamples,
        examples: Sequence[Example],
    ) -> list[FilledMasks]:
        """Decode the likeliest tokens of each mask.

        `outputs` holds an array for each text, `[masks, top, 2]`: ids of tokens and probabilities.
        """

        def decode_tokens(mask: list[list[float]]) -> tuple[ScoredToken, ...]:
            return tuple(
                ScoredToken(self.tokenizer.decode([int(id_)]), probability)
                for id_, probability in mask
            )

        return [
            FilledMasks(tuple(map(decode_tokens, masks.tolist())), num_cut > 0)
            for masks, num_cut in zip(outputs, encoded.num_cut, strict=True)
        ]

    def _fill_masks(self, word_embedding: Tensor, model: BertModel, batch: Batch) -> Tensor:
        """Return ids and probabilities of each mask's likeliest tokens, fp32 `[masks, top, 2]`."""
        is_mask = batch.input_ids == self.tokenizer.mask_id
        mask_vectors = model.encode(batch)[is_mask].float()
        likeliest = []
        # A portion of the masks has at most `MAX_LOGITS` logits, which bounds the memory.
        for portion in torch.split(mask_vectors, MAX_LOGITS // len(word_embedding)):
            logits = model.apply_to_rows(
                lambda vectors: model.heads["masked_lm"](vectors, word_embedding), portion
            )
            # The embedding may have more rows than the vocabulary has tokens.
            probabilities = logits[:, : self.tokenizer.vocab_size].softmax(-1)
            likeliest.append(self.find_likeliest(probabilities))
        return torch.cat(likeliest)

    def find_likeliest(self, probabilities: Tensor) -> Tensor:
        """Return ids and probabilities of the likeliest tokens, fp32 `[masks, top, 2]`.

        Args:
            probabilities: of each token of the vocabulary, fp32 `[masks, vocabulary]`. Those of
                special tokens are overwritten.
        """
        special = torch.tensor(sorted(self.tokenizer.special_ids), device=probabilities.device)
        num_ordinary = probabilities.shape[1] - len(special)
        # -1 is below any probability, so a special token is never among the likeliest.
        highest, ids = probabilities.index_fill_(1, special, -1.0).topk(min(self.top, num_ordinary))
        return torch.stack((ids.float(), highest), -1)
