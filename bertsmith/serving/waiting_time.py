"""The time that a new request waits for its turn, as the HTTP process estimates it.

The engine, the process that computes, tells from time to time how much it has to do.
"""

from bertsmith.serving.messages import QueueState


class WaitingTime:
    """Estimate of the seconds that a new request waits for its turn.

    After each batch the engine sends a `QueueState`: how many tokens are computed before a new
    request, and how long a token takes. Requests that were sent to the engine since then are added
    here. On a busy computer a batch may take seconds, and without this all requests that arrive
    meanwhile would be admitted.
    """

    def __init__(self) -> None:
        self.latest = QueueState(last_request_id=0, num_tokens=0, seconds_per_token=0.0)
        """The latest message of the engine."""
        self._sent: dict[int, int] = {}
        """Numbers of tokens, by request id, of requests that the engine has not counted yet."""
        self._num_sent_tokens = 0

    @property
    def seconds(self) -> float:
        num_tokens = self.latest.num_tokens + self._num_sent_tokens
        return num_tokens * self.latest.seconds_per_token

    def add(self, request_id: int, num_tokens: int) -> None:
        """Add a request that is sent to the engine; its id is above all earlier ones."""
        self._sent[request_id] = num_tokens
        self._num_sent_tokens += num_tokens

    def remove(self, request_id: int) -> None:
        """Remove a request that has left the engine, if it is still counted here."""
        self._num_sent_tokens -= self._sent.pop(request_id, 0)

    def update(self, message: QueueState) -> None:
        """Take over the engine's count, which replaces the estimates of all requests in it."""
        self.latest = message
        counted = [request_id for request_id in self._sent if request_id <= message.last_request_id]
        for request_id in counted:
            self.remove(request_id)
