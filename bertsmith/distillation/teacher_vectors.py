"""A cache of a pre-trained teacher's vectors by batch content.

Vectors have the teacher's own type, so on the same machine a run with a cache equals the run
without it, bit for bit; logits would take fifty times the space. A batch comes again with static
masks in each further epoch, and in further runs with the same corpus, seed and sizes.

    DIR/manifest.json        teacher, tokenizer, precision, hidden
    DIR/<content>.npy        [tokens or masked tokens, hidden], as integers of the type's width
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.distillation.cache_folder import load_array, open_cache, save_array

INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""Integer types of equal width: numpy has no bfloat16, so bits are kept as integers."""


class VectorCache:
    """A folder with a teacher's vectors of batches.

    Args:
        facts: what identifies the vectors: "teacher", "tokenizer".
        width: size of a vector.
        dtype: type that the teacher computes in.
        hidden: whether vectors of all tokens are wanted, or only of the masked ones.

    Raises:
        ConfigError: the folder holds something else.
    """

    def __init__(
        self,
        directory: Path,
        facts: Mapping[str, Any],
        width: int,
        dtype: torch.dtype,
        *,
        hidden: bool,
    ) -> None:
        self.directory = directory
        self.width = width
        self.dtype = dtype
        precision = str(dtype).removeprefix("torch.")
        wanted = {"of": "vectors", **facts, "precision": precision, "hidden": hidden}
        self.holds_all = bool(open_cache(directory, wanted)["hidden"])

    def vectors(self, batch: Batch, compute: Callable[[], Tensor]) -> Tensor:
        """Return a batch's cached vectors, computing and caching missing ones.

        Args:
            compute: returns `[tokens, hidden]`.

        Returns:
            The vectors of all tokens, or only of the masked ones unless `holds_all`.

        Raises:
            CheckpointError: the file is damaged.
            InputError: the disk is full, or the folder cannot be written.
        """
        places = batch.targets["masked_positions"]
        path = self.directory / f"{digest(batch)}.npy"
        if path.exists():
            kept = self._read(path, batch.num_tokens if self.holds_all else len(places))
            return kept.to(batch.input_ids.device)
        vectors = compute()
        if not self.holds_all:
            vectors = vectors.index_select(0, places)
        save_array(path, vectors.cpu().contiguous().view(INTEGERS[self.dtype]).numpy())
        return vectors

    def _read(self, path: Path, num_vectors: int) -> Tensor:
        kept = torch.from_numpy(np.array(load_array(path)))
        assert kept.shape == (num_vectors, self.width)
        return kept.view(self.dtype)

    def facts(self) -> dict[str, Any]:
        sizes = [path.stat().st_size for path in self.directory.glob("*.npy")]
        return {
            "cache": str(self.directory),
            "cached_batches": len(sizes),
            "cached_bytes": sum(sizes),
        }


def digest(batch: Batch) -> str:
    """Compute the SHA-256 of a batch's inputs and masked positions."""
    found = hashlib.sha256(np.array(batch.lengths, dtype="<i4").tobytes())
    for part in (batch.input_ids, batch.token_type_ids, batch.targets["masked_positions"]):
        found.update(part.cpu().numpy().astype("<i4").tobytes())
    return found.hexdigest()
