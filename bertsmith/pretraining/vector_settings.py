"""Settings of `bertsmith vectors`."""

from dataclasses import dataclass
from pathlib import Path

from bertsmith.errors import SettingError
from bertsmith.system.bounds import LARGEST, check_seed, check_upper_limits
from bertsmith.system.compute import Advanced


@dataclass(frozen=True)
class VectorSettings:
    """The corpus to count in, and the shape of the vectors."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder to write the vectors to."""
    size: int = 128
    """Numbers of a vector. More of them need more labels to learn from."""
    max_length: Advanced[int] = 512
    """Largest number of tokens of a text that are read at once."""
    seed: Advanced[int] = 0
    """Random seed of the factorization."""
    overwrite: bool = False
    """Replace the model in --out."""

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        check_upper_limits(self)
        largest = LARGEST["hidden_size"]
        if not 1 <= self.size <= largest:
            raise SettingError("size", self.size, f"1 to {largest:,}")
        if self.max_length < 3:  # [CLS], a token and [SEP]
            raise SettingError("max_length", self.max_length, "3 or more")
