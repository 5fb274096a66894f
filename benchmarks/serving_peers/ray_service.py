"""Ray Serve application of an export, with dynamic batching and one replica, on this machine.

    python ray_service.py FOLDER PORT TEMPORARY

It runs until SIGTERM. Ray writes its files to the folder TEMPORARY.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import ray
from model import MAX_BATCH_SIZE, MAX_WAIT, Model
from ray import serve
from starlette.requests import Request

MAX_WAITING = 256
"""Requests that a replica accepts, as in attention_zoo."""


@serve.deployment(num_replicas=1, max_ongoing_requests=MAX_WAITING)
class Predictor:
    def __init__(self, folder: str) -> None:
        self.model = Model(folder)

    @serve.batch(max_batch_size=MAX_BATCH_SIZE, batch_wait_timeout_s=MAX_WAIT)
    async def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.model.predict, texts)

    async def __call__(self, request: Request) -> dict[str, Any]:
        (text,) = (await request.json())["texts"]
        return await self.predict(text)


def main() -> None:
    folder, port, temporary = sys.argv[1:]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    ray.init(
        include_dashboard=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}},
        _temp_dir=temporary,
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    serve.run(Predictor.bind(folder))
    stopped.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
