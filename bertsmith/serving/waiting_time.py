"""The time that a new request waits for its turn, as the HTTP process estimates it."""

from bertsmith.serving.messages import Waiting


class WaitingTime:
    """Seconds that a new request waits for its turn.

    After each batch the engine says how many tokens come first, and how long a token takes.
    Requests that were sent since are added here: a batch may take seconds on a busy computer, and
    the requests that arrive meanwhile would all be accepted otherwise.
    """

    def __init__(self) -> None:
        self.latest = Waiting(last_number=0, num_tokens=0, seconds_per_token=0.0)
        """The latest message of the engine."""
        self._sent: dict[int, int] = {}
        """Numbers of tokens of the requests that the engine has not counted yet, in their order."""
        self._num_sent_tokens = 0

    @property
    def seconds(self) -> float:
        num_tokens = self.latest.num_tokens + self._num_sent_tokens
        return num_tokens * self.latest.seconds_per_token

    def add(self, number: int, num_tokens: int) -> None:
        """Add a request that is sent to the engine; its number is above all earlier ones."""
        self._sent[number] = num_tokens
        self._num_sent_tokens += num_tokens

    def remove(self, number: int) -> None:
        """Remove a request that has left the engine, if it is still counted here."""
        self._num_sent_tokens -= self._sent.pop(number, 0)

    def update(self, message: Waiting) -> None:
        """Take the engine's latest count in place of the requests that it includes."""
        self.latest = message
        counted = [number for number in self._sent if number <= message.last_number]
        for number in counted:
            self.remove(number)
