"""Server processes: attention_zoo, BentoML and Ray Serve with the same export."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving_load import HOST

PEERS = Path(__file__).parent / "serving_peers"
START_TIMEOUT, STOP_TIMEOUT = 180, 40


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        port: its port.
        path: path of predictions.
        pid: its process.
        seconds: from the start of the process until it was ready.
    """

    port: int
    path: str
    pid: int
    seconds: float

    def measure_memory(self) -> int:
        """Return the resident memory of all processes of the server, in bytes."""
        return sum(map(read_resident, list_processes(self.pid)))


class Kind:
    """How to start a kind of server.

    Args:
        name: name in tables.
        ready: path whose status is 200 once the server is ready.
    """

    def __init__(self, name: str, ready: str = "/readyz") -> None:
        self.name, self.ready = name, ready

    def get_command(self, export: Path, port: int, folder: str) -> list[str]:
        """Return the command that serves an export, with a folder for temporary files."""
        return [sys.executable, "-m", "attention_zoo", "serve", str(export), "--port", str(port)]

    def get_path(self, export: Path) -> str:
        """Return the path of predictions."""
        return f"/v1/models/{export.name}:predict"

    def make_body(self, text: str) -> str:
        """Return the body of a request for one text."""
        return json.dumps({"instances": [text]})


class Peer(Kind):
    """A peer: BentoML or Ray Serve.

    Args:
        name, ready: as in `Kind`.
        path: path of predictions.
        command: the command, in the folder of the services, with {export}, {port} and {folder}.
    """

    def __init__(self, name: str, ready: str, path: str, command: list[str]) -> None:
        super().__init__(name, ready)
        self._path, self._command = path, command

    def get_command(self, export: Path, port: int, folder: str) -> list[str]:
        return [word.format(export=export, port=port, folder=folder) for word in self._command]

    def get_path(self, export: Path) -> str:
        return self._path

    def make_body(self, text: str) -> str:
        return json.dumps({"texts": [text]})


def make_peers(python: str) -> list[Peer]:
    """Return the peers, in the environment of a Python interpreter."""
    python = os.path.abspath(python)
    bentoml = [str(Path(python).with_name("bentoml")), "serve", "bentoml_service:Predictor"]
    ray = [python, "ray_service.py", "{export}", "{port}", "{folder}"]
    return [
        Peer("BentoML", "/readyz", "/predict", [*bentoml, "--host", HOST, "--port", "{port}"]),
        Peer("Ray Serve", "/-/healthz", "/", ray),
    ]


@contextmanager
def start_server(kind: Kind, export: Path) -> Iterator[Server]:
    """Start a server, wait until it is ready, and stop it at the end of the block.

    Raises:
        RuntimeError: it ends early, or is not ready within 180 seconds.
    """
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    # A short name: the paths of sockets have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="az-") as folder:
        environment = {
            **os.environ,
            "EXPORT": str(export),
            "BENTOML_HOME": folder,
            "BENTOML_DO_NOT_TRACK": "True",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with (Path(folder) / "log.txt").open("w+b") as log:
            start = time.perf_counter()
            process = subprocess.Popen(
                kind.get_command(export, port, folder),
                cwd=PEERS if isinstance(kind, Peer) else None,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                _wait_until_ready(process, port, kind.ready)
                seconds = time.perf_counter() - start
                yield Server(port, kind.get_path(export), process.pid, seconds)
                if process.poll() is not None:
                    raise RuntimeError("the server ended early")
            except RuntimeError as error:
                log.seek(0)
                text = log.read().decode(errors="replace")
                raise RuntimeError(f"{kind.name}: {error}:\n{text[-3000:]}") from None
            finally:
                _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str) -> None:
    """Wait until a path has the status 200."""
    end = time.perf_counter() + START_TIMEOUT
    while time.perf_counter() < end:
        if process.poll() is not None:
            raise RuntimeError("the server ended early")
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.02)
    raise RuntimeError(f"the server was not ready within {START_TIMEOUT} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a server with SIGTERM, and what it has left running with SIGKILL."""
    started = list_processes(process.pid)
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid, number in started.items():
        if pid != process.pid and read_start(pid) == number:
            os.kill(pid, signal.SIGKILL)


def list_processes(root: int) -> Mapping[int, int]:
    """Return a process and its descendants: their numbers, and their start times."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (fields := _read_stat(int(folder.name))):
            parents[int(folder.name)] = int(fields[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    starts = {pid: read_start(pid) for pid in found}
    return {pid: start for pid, start in starts.items() if start is not None}


def read_start(pid: int) -> int | None:
    """Return the start time of a process in clock ticks; None if it does not run."""
    fields = _read_stat(pid)
    return None if not fields or fields[0] == "Z" else int(fields[19])


def read_resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it does not run."""
    fields = _read_stat(pid)
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _read_stat(pid: int) -> list[Any]:
    """Return the fields of /proc/PID/stat after the name; empty if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
