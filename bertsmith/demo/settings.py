"""Settings of the demo."""

from dataclasses import dataclass
from pathlib import Path

from bertsmith.errors import SettingError

TOO_MANY_MINUTES = 1e6  # almost two years: a typing error


@dataclass(frozen=True)
class DemoSettings:
    """Output folder and length of a demo."""

    out: Path = Path("runs/demo")
    """The folder for text, vocabulary, corpus, models, and report.html. An earlier demo in it is
    replaced; other files in it stay."""
    minutes: float = 5.0
    """Minutes for the whole demo. With more minutes, the model gets better."""

    def __post_init__(self) -> None:
        if self.out.name in ("", ".."):
            raise SettingError("out", self.out, "a folder of its own")
        if not 0 < self.minutes < TOO_MANY_MINUTES:
            allowed = f"a number above 0 and below {TOO_MANY_MINUTES:,.0f}"
            raise SettingError("minutes", self.minutes, allowed)
