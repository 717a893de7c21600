"""The check that the commands with beam search share."""

from bertsmith.errors import ConfigError, option


def check_penalty(beams: int | None, length_penalty: float) -> None:
    """Refuse a penalty of length without a search that it is a part of.

    Raises:
        ConfigError: says what to give in addition.
    """
    if beams is None and length_penalty != 1:
        raise ConfigError(
            f"{option('length_penalty')}: found {length_penalty:g}, which has no effect without "
            f"beam search. Give {option('beams', 4)}, too, or leave it out."
        )
