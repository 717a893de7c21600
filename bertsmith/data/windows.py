"""A long row of tokens → windows that overlap, so that nothing of it is left unread."""

from bertsmith.errors import ConfigError


def window_spans(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Ranges `(start, end)` of at most `room` tokens that cover `length` of them.

    Neighbours share `stride` tokens (the word as the tokenizers library has it); the last one is
    moved back, so that it is as long as the others and sees as much context.

    >>> window_spans(10, room=5, stride=2)
    [(0, 5), (3, 8), (5, 10)]
    >>> window_spans(0, room=5, stride=2)
    [(0, 0)]

    Raises:
        ConfigError: `stride` leaves no room for new tokens.
    """
    if not 0 <= stride < room:
        raise ConfigError(
            f"stride: found {stride} where {room} tokens have room; allowed is 0 to {room - 1}."
        )
    if length <= room:
        return [(0, length)]
    starts = range(0, length - room, room - stride)
    return [(start, start + room) for start in (*starts, length - room)]
