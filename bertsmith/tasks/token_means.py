"""Means of vectors over the tokens of a row, where each token of the vocabulary has a vector."""

from collections.abc import Collection

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import EncodedTexts


def mean_of_tokens(
    texts: EncodedTexts, vectors: NDArray[np.float32], special_ids: Collection[int]
) -> NDArray[np.float32]:
    """Average the vectors of each row's tokens, fp32 `[rows, columns]`.

    `vectors` has a row for each token of the vocabulary, fp32 `[vocabulary, columns]`. Special
    tokens do not count; a row of special tokens alone gets zeros.
    """
    ids = texts.ids.flat.astype(np.int64)
    is_ordinary = ~np.isin(ids, list(special_ids))
    row_of_token = np.repeat(np.arange(len(texts)), texts.lengths)
    num_ordinary = np.bincount(row_of_token[is_ordinary], minlength=len(texts))
    starts = np.cumsum(num_ordinary) - num_ordinary  # of each row among all ordinary tokens
    means: NDArray[np.float32] = F.embedding_bag(
        torch.from_numpy(ids[is_ordinary]),
        torch.from_numpy(vectors),
        torch.from_numpy(starts),
        mode="mean",
    ).numpy()
    return means
