"""Places in the queue: how many texts the server holds at a time."""

from bertsmith.serving.problems import invalid, overloaded


class Places:
    """A number of places for texts; a request takes all that it needs at once, or none.

    Args:
        limit: number of places, 1 or more.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_taken = 0

    def take(self, count: int) -> None:
        """Take places for the texts of a request.

        Raises:
            Problem: 413 if there are never so many places, or 429 if there are too few now.
        """
        if count > self.limit:
            raise invalid(
                f"the request has {count:,} texts, and this server holds at most {self.limit:,} "
                "at a time. Divide the request.",
                status=413,
            )
        if self.num_taken + count > self.limit:
            raise overloaded(self.describe_load())
        self.num_taken += count

    def give_back(self, count: int) -> None:
        """Give places back, when their texts are computed or nobody wants them any more."""
        self.num_taken -= count

    def describe_load(self) -> str:
        """Say that there is no room."""
        return (
            f"the server is busy: {self.num_taken:,} of its {self.limit:,} places are taken. Send "
            "the request again in a moment."
        )
