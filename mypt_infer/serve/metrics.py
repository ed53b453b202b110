"""Counts what the server does, for Prometheus. Nothing of a request's content is in it."""

import gc
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mypt_infer.serve.rows import Rows

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Metrics:
    """The metrics of one server; `text` has them as Prometheus reads them."""

    def __init__(self, rows: Rows) -> None:
        self.registry = registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        seconds = partial(Histogram, registry=registry, buckets=_SECONDS)
        self.requests = counter("mypt_requests", "requests by path and status", ["path", "status"])
        self.tokens = counter("mypt_tokens", "tokens of prompts and of answers", ["kind"])
        self.first = seconds("mypt_first_token_seconds", "time from a request to its first token")
        self.request_seconds = seconds("mypt_request_seconds", "time of a whole request")
        self.cancelled = counter("mypt_cancelled", "requests whose client went away")
        counts = rows.counts
        for name, help_text, read_value in (
            ("mypt_running", "answers that are drawn now", lambda: counts.running),
            ("mypt_waiting", "answers that wait for a row", lambda: counts.waiting),
            ("mypt_steps", "steps of the model so far", lambda: counts.steps),
            ("mypt_read", "ids that the model has read", lambda: counts.read),
            ("mypt_reused", "ids of prompts that another row had read", lambda: counts.reused),
            ("mypt_model_seconds", "time in the model so far", lambda: counts.model),
            ("mypt_constraint_seconds", "time in the grammar so far", lambda: counts.constraint),
            ("mypt_drawing_seconds", "time in sampling so far", lambda: counts.drawing),
            ("mypt_refused_mass", "mean probability of refused ids", lambda: rows.refused.mean),
            ("mypt_frozen", "objects that no collection of garbage looks at", gc.get_freeze_count),
        ):
            Gauge(name, help_text, registry=registry).set_function(read_value)

    @property
    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
