"""Notes of a report on examples that were truncated, windowed or skipped."""


def reading_notes(
    num_truncated: int, num_windowed: int, num_skipped: int, lacking: str = "text or label"
) -> list[str]:
    """Describe how many texts were too long and how many rows skipped."""
    notes = []
    if num_windowed:
        notes.append(f"{num_windowed:,} texts were longer than the model reads and were read in "
                     "windows")  # fmt: skip
    if num_truncated:
        notes.append(f"{num_truncated:,} texts were longer than the model reads; their ends had "
                     "no part in this")  # fmt: skip
    if num_skipped:
        notes.append(f"{num_skipped:,} rows without {lacking} were skipped")
    return notes
