"""BentoML service of an export, with adaptive batching.

    EXPORT=folder bentoml serve bentoml_service:Predictor --port 3000

BentoML has no maximum time to wait for a batch: it estimates the best one. Its option
`max_latency_ms` is a deadline that includes the computation, after which a request fails with
status 503.
"""

from __future__ import annotations

import os
from typing import Any

import bentoml
from model import MAX_BATCH_SIZE, Model

TIMEOUT = 30
"""Seconds, as in attention_zoo."""


@bentoml.service(workers=1, traffic={"timeout": TIMEOUT})
class Predictor:
    def __init__(self) -> None:
        self.model = Model(os.environ["EXPORT"])

    @bentoml.api(batchable=True, max_batch_size=MAX_BATCH_SIZE, max_latency_ms=1000 * TIMEOUT)
    def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        return self.model.predict(texts)
