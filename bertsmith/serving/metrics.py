"""Figures for Prometheus, under the names that dashboards of text-embeddings-inference know."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from bertsmith.serving.admission import AdmissionControl
from bertsmith.serving.messages import Answers, ComputedBatch

DURATIONS = [15e-6 * 1.5**power for power in range(35)]
"""Upper bounds of the buckets of times, in seconds: 15 microseconds to a quarter of a minute."""
LENGTHS = [2.0**power for power in range(20)]
"""Upper bounds of the buckets of text lengths, in tokens: 1 to 524,288."""
SIZES = [2.0**power for power in range(13)]
"""Upper bounds of the buckets of numbers of texts: 1 to 4,096."""
TOKENS = [2.0**power for power in range(21)]
"""Upper bounds of the buckets of numbers of tokens: 1 to 1,048,576."""

DURATION_PARTS = {
    "_duration": "Seconds of a request",
    "_tokenization_duration": "Seconds of tokenizing",
    "_queue_duration": "Seconds in the queue",
    "_inference_duration": "Seconds in the model",
}
"""Endings of the names of histograms, and their descriptions."""
COUNTERS = {
    "te_request_count": "Requests, by method",
    "te_request_success": "Requests that were answered, by method",
    "te_request_failure": "Requests that were refused or dropped, by reason",
    "te_embed_count": "Texts that were sent for vectors",
    "te_embed_success": "Texts that got a vector",
    "te_predict_count": "Texts that were sent for predictions",
    "te_predict_success": "Texts that got a prediction",
}


class _Counters:
    """Counters under exactly the names of `COUNTERS`.

    The counters of prometheus_client would add `_total` to each name.
    """

    def __init__(self) -> None:
        self.values: dict[str, Counter[tuple[tuple[str, str], ...]]] = {
            name: Counter() for name in COUNTERS
        }

    def add(self, name: str, amount: int = 1, **labels: str) -> None:
        self.values[name][tuple(labels.items())] += amount

    def collect(self) -> Iterator[Metric]:
        """Yield the counters; the registry calls this method for each scrape."""
        for name, counts in self.values.items():
            # The type "counter" would add `_total` as well.
            metric = Metric(name, COUNTERS[name], "unknown")
            for labels, amount in counts.items():
                metric.add_sample(name, dict(labels), amount)
            yield metric


class Metrics:
    """The figures of one server."""

    def __init__(self, admission: AdmissionControl) -> None:
        self.registry = CollectorRegistry()
        self.counters = _Counters()
        self.registry.register(self.counters)
        queue = Gauge("te_queue_size", "Texts that wait or are computed", registry=self.registry)
        queue.set_function(lambda: admission.num_texts)
        self.durations = {
            f"{name}{part}": self._histogram(f"{name}{part}", description, DURATIONS)
            for name in ("te_request", "te_embed", "te_predict")
            for part, description in DURATION_PARTS.items()
        }
        self.lengths = self._histogram("te_request_input_length", "Tokens of a text", LENGTHS)
        self.sizes = self._histogram("te_request_texts", "Texts of a request", SIZES)
        self.tokens = self._histogram("te_request_tokens", "Tokens of a request", TOKENS)
        self.batch_sizes = self._histogram("te_batch_next_size", "Texts of a batch", SIZES)
        self.batch_tokens = self._histogram("te_batch_next_tokens", "Tokens of a batch", TOKENS)

    def _histogram(self, name: str, description: str, bounds: list[float]) -> Histogram:
        return Histogram(name, description, buckets=bounds, registry=self.registry)

    def count_request(self, method: str) -> None:
        """Count a request; `method` is the name of its route, such as "predict"."""
        self.counters.add("te_request_count", method=method)

    def count_success(self, method: str, seconds: float) -> None:
        self.counters.add("te_request_success", method=method)
        self.durations["te_request_duration"].observe(seconds)

    def count_failure(self, reason: str) -> None:
        self.counters.add("te_request_failure", err=reason)

    def observe_batch(self, batch: ComputedBatch) -> None:
        """Add the size of a batch."""
        self.batch_sizes.observe(batch.num_texts)
        self.batch_tokens.observe(batch.num_tokens)

    def observe_request(self, answers: Answers) -> None:
        """Add the times and lengths of an answered request."""
        self._observe_parts("te_request", answers)
        for count in answers.num_tokens:
            self.lengths.observe(count)
        self.sizes.observe(len(answers.num_tokens))
        self.tokens.observe(sum(answers.num_tokens))

    def observe_times(self, name: str, answers: Answers, seconds: float) -> None:
        """Add the times of a request for vectors (`te_embed`) or predictions (`te_predict`).

        Args:
            seconds: from its arrival at the queue to its answer.
        """
        self.durations[f"{name}_duration"].observe(seconds)
        self._observe_parts(name, answers)

    def _observe_parts(self, name: str, answers: Answers) -> None:
        self.durations[f"{name}_tokenization_duration"].observe(answers.encoding_seconds)
        self.durations[f"{name}_queue_duration"].observe(answers.queue_seconds)
        self.durations[f"{name}_inference_duration"].observe(answers.compute_seconds)

    def as_text(self) -> bytes:
        """Write all figures in the text format of Prometheus."""
        return generate_latest(self.registry)
