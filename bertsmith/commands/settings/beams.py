"""A check of the flags of beam search, for the commands that have them."""

from bertsmith.errors import ConfigError, option


def check_penalty(beams: int | None, length_penalty: float) -> None:
    """Check that a length penalty is given only with beam search.

    Raises:
        ConfigError: a penalty is given without `beams`.
    """
    if beams is None and length_penalty != 1:
        raise ConfigError(
            f"{option('length_penalty')}: found {length_penalty:g}, which has no effect without "
            f"beam search. Give {option('beams', 4)}, too, or leave {option('length_penalty')} out."
        )
