"""Structured logs: one JSON object per line, without the texts of users."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any, TextIO

LOGGER = logging.getLogger("attention_zoo.serving")
FIELDS = "fields"


class JsonFormatter(logging.Formatter):
    """Formatter of log records as JSON, with the extra `fields` of the record.

    Of exceptions, it writes the type and the positions in the code. Their messages may contain
    texts of users.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            entry["error"] = type(error).__name__
            entry["stack"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            ]
        return json.dumps(entry, ensure_ascii=False)


def configure_logs(stream: TextIO | None = None) -> None:
    """Write the logs of the server and of uvicorn to a stream, by default `sys.stderr`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for logger, level in (
        (LOGGER, logging.INFO),
        (logging.getLogger("uvicorn"), logging.WARNING),
        (logging.getLogger("asyncio"), logging.WARNING),
    ):
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False


def log(message: str, level: int = logging.INFO, exc_info: Any = None, **fields: Any) -> None:
    """Write a log line with fields."""
    LOGGER.log(level, message, exc_info=exc_info, extra={FIELDS: fields})
