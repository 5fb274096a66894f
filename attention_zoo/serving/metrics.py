"""Metrics of a server in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attention_zoo.extras import explain_missing_package

with explain_missing_package():
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Histogram,
        ProcessCollector,
        generate_latest,
    )
    from prometheus_client.metrics_core import GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters and histograms of a server.

    Attributes:
        requests: number of responses by model, version and status. Requests without a known model
            have an empty one.
        seconds: time from the header of a request to its response, by model and version.
        batch_rows: rows of each batch, by model and version.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        labels = ("model", "version")
        self.requests = Counter(
            "attention_zoo_requests",
            "Responses by status",
            (*labels, "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "attention_zoo_request_seconds",
            "Time of a request with a known model",
            labels,
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batch_rows = Histogram(
            "attention_zoo_batch_rows",
            "Rows of a batch",
            labels,
            buckets=ROWS,
            registry=self.registry,
        )

    def observe_batch(self, model: str, version: str, rows: int) -> None:
        """Count a batch of a version of a model."""
        self.batch_rows.labels(model, version).observe(rows)

    def add_queues(self, versions: Iterable[Any]) -> None:
        """Add the number of waiting rows of each `LoadedVersion`; read on each scrape."""
        self.registry.register(_QueueCollector(versions))

    def format(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self.registry)


class _QueueCollector(Collector):
    """Collector of the sizes of queues."""

    def __init__(self, versions: Iterable[Any]) -> None:
        self._versions = versions

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily(
            "attention_zoo_waiting_rows", "Rows that wait for a model", labels=("model", "version")
        )
        for version in self._versions:
            gauge.add_metric((version.name, str(version.number)), version.queue.num_waiting)
        yield gauge
