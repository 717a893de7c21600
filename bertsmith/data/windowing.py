"""The settings for texts that are longer than a model reads: overlapping windows, or a cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bertsmith.errors import ConfigError, SettingError, option

LongTexts = Literal["window", "cut"]

DEFAULT_OVERLAP = 0.25
"""Default share of a window that its neighbour holds too."""


@dataclass(frozen=True)
class Windowing:
    """The treatment of texts that are longer than a model reads."""

    long_texts: LongTexts = "window"
    """Whether a long text is divided into overlapping windows, or cut at the maximum length."""
    stride: float = DEFAULT_OVERLAP
    """Number of tokens that neighbouring windows share, or a share of a window if below 1."""

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "Windowing":
        """Read the settings that a model's folder stores; None means the default, as if missing."""
        stride = settings.get("stride")
        return cls(
            settings.get("long_texts") or "window", DEFAULT_OVERLAP if stride is None else stride
        )

    def overlap(self, max_length: int) -> int:
        """Return the number of tokens that neighbouring windows of `max_length` tokens share.

        Raises:
            ConfigError: the stride is more than half of a row.
        """
        stride = int(self.stride * max_length if 0 < self.stride < 1 else self.stride)
        if not 0 <= stride <= max_length // 2:
            raise SettingError(
                "stride",
                self.stride,
                f"0 to {max_length // 2}, half of a window of {max_length} tokens",
                f"Give one of these, or raise {option('max_length')}.",
            )
        return stride


def check_stride(long_texts: LongTexts, requested_stride: int | None) -> None:
    """Check that a stride is requested only where long texts are read in windows.

    Raises:
        ConfigError: long texts are cut.
    """
    if requested_stride is not None and long_texts == "cut":
        raise ConfigError(
            f"{option('stride', requested_stride)} is the overlap of windows, and with "
            f"{option('long_texts', 'cut')} there are none. Leave one of the two out."
        )
