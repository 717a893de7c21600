"""A pre-trained teacher's vectors of a batch, made anew or read where they were kept.

Kept is what the last layer gives, in the type that the teacher computes in: its guesses are made
of that in one product, and logits would take fifty times the room. So on the same machine a run
with a cache is the run without it, to the last bit.

A batch is known by its content. It comes again where masks are static, in each further round, and
whatever the masks are in a further run over the same corpus with the same seed and sizes.

    DIR/manifest.json        teacher, tokenizer, precision, hidden
    DIR/<content>.npy        [tokens or hidden words, hidden], as integers of the type's width
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.tasks.cache_folder import load_array, open_cache, save_array

INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""numpy has no bfloat16: numbers are kept as integers of the same bits."""


class VectorCache:
    """A folder with what a teacher made of batches.

    Args:
        facts: whose vectors they are: "teacher", "tokenizer".
        width: numbers of a vector.
        dtype: what they are computed in.
        hidden: whether those of all tokens are asked for, or of the hidden words alone.

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
        """What was kept of a batch, or else what `compute` gives for its tokens, which is kept now.

        Args:
            compute: gives `[tokens, hidden]`.

        Returns:
            The vectors of all tokens, or of the hidden words alone where not all are kept.

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
        """How much is kept, as plain values."""
        sizes = [path.stat().st_size for path in self.directory.glob("*.npy")]
        return {
            "cache": str(self.directory),
            "cached_batches": len(sizes),
            "cached_bytes": sum(sizes),
        }


def digest(batch: Batch) -> str:
    """SHA-256 of all that a teacher reads, and of which words are hidden."""
    found = hashlib.sha256(np.array(batch.lengths, dtype="<i4").tobytes())
    for part in (batch.input_ids, batch.token_type_ids, batch.targets["masked_positions"]):
        found.update(part.cpu().numpy().astype("<i4").tobytes())
    return found.hexdigest()
