"""The error for a row with a missing text or column, which says how to skip such rows."""

from dataclasses import dataclass

from bertsmith.data.text_files import ExampleSource, locate_row
from bertsmith.errors import InputError, option


class IncompleteRowError(InputError):
    """A row with a missing text or column, which the user may choose to skip."""


@dataclass(frozen=True)
class IncompleteRows:
    """Builder of errors for the incomplete rows of a source, a file or rows in memory.

    Attributes:
        can_skip: whether the user can choose to skip them, so that messages name the option.
    """

    source: ExampleSource
    can_skip: bool

    def error(self, row: int, problem: str, advice: str = "") -> IncompleteRowError:
        """Build the error for an incomplete row; say how to skip it, if the user can."""
        skip = f"pass {option('skip_incomplete', True)} (skipped rows are counted)."
        end = f"{advice} Or {skip}" if advice else f"Fix the row, or {skip}"
        if not self.can_skip:
            end = advice or "Fix the row."
        return IncompleteRowError(f"{locate_row(self.source, row)}: {problem}. {end}")
