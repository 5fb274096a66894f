"""Model manager: load, replace and unload model versions while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from attention_zoo.files import MANIFEST
from attention_zoo.serving.batching import BatchQueue, QueueFullError
from attention_zoo.serving.config import Limits, ModelConfig
from attention_zoo.serving.exports import GRAPH
from attention_zoo.serving.logs import log

Result = TypeVar("Result")
Load = Callable[[Path], Any]
ObserveBatch = Callable[[str, str, int], None]


class UnknownModelError(LookupError):
    """No model, or no version of a model, has the name of a request."""


class NotReadyError(Exception):
    """A configured model has no loaded version yet."""


class VersionStatus(NamedTuple):
    """State of a version, as TensorFlow Serving names it: LOADING, AVAILABLE, UNLOADING or END."""

    state: str
    error: str = ""


class LoadedVersion:
    """A loaded version of a model, with its queue.

    Args:
        name: name of the model.
        number: number of the version.
        model: a `ServedModel`.
        limits: limits of the requests.
        observe_batch: function of the name, the version and the rows of each batch.

    Attributes:
        digest: SHA-256 of the manifest of the export.
        parsing: limits the number of bodies that are parsed at once, which takes memory.
    """

    def __init__(
        self, name: str, number: int, model: Any, limits: Limits, observe_batch: ObserveBatch
    ) -> None:
        self.name, self.number, self.model, self.limits = name, number, model, limits
        self.digest = ""

        def run(key: Any, rows: list[Any]) -> Sequence[Any]:
            observe_batch(name, str(number), len(rows))
            outputs: Sequence[Any] = model.run(key, rows)
            return outputs

        self.queue = BatchQueue(run, limits.max_batch_size, limits.max_wait, limits.max_waiting)
        self.parsing = asyncio.Semaphore(2)
        self._num_requests = 0
        self._is_unused = asyncio.Event()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Defer `drain` until the block has ended.

        Raises:
            QueueFullError: more requests than `max_waiting` and a batch are in such blocks.
        """
        if self._num_requests >= self.limits.max_waiting + self.limits.max_batch_size:
            raise QueueFullError
        self._num_requests += 1
        try:
            yield
        finally:
            self._num_requests -= 1
            self._is_unused.set()

    async def drain(self) -> None:
        """Wait until no request uses this version, and stop its queue."""
        while self._num_requests:
            self._is_unused.clear()
            await self._is_unused.wait()
        await self.queue.close()


class ModelManager:
    """The models of a server.

    `update` compares the configuration with what is loaded. New versions are loaded in a thread
    while the old ones serve; then requests go to the new ones, and the old ones are unloaded after
    their last request. If a version cannot be loaded, the old ones remain.

    Args:
        read_configs: function that returns the current configuration.
        load: function of the folder of an export that returns a `ServedModel` that is warmed up.
        observe_batch: function of model, version and number of rows, called for each batch.

    Attributes:
        is_ready: whether the first `update` has loaded a version of each model.
    """

    def __init__(
        self,
        read_configs: Callable[[], Sequence[ModelConfig]],
        load: Load,
        observe_batch: ObserveBatch = lambda name, version, rows: None,
    ) -> None:
        self.is_ready = False
        self._read_configs, self._load, self._observe_batch = read_configs, load, observe_batch
        self._versions: dict[str, dict[int, LoadedVersion]] = {}
        self._statuses: dict[str, dict[int, VersionStatus]] = {}
        self._lock = asyncio.Lock()
        self._draining: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __iter__(self) -> Iterator[LoadedVersion]:
        """Iterate over all loaded versions."""
        for versions in self._versions.values():
            yield from versions.values()

    def find(self, name: str, number: int | None = None) -> LoadedVersion:
        """Return a loaded version of a model, by default the one with the highest number.

        Raises:
            UnknownModelError: no model has this name, or it has no such version.
            NotReadyError: the model or version is being loaded.
        """
        versions = self._versions.get(name, {})
        if number is None and versions:
            return versions[max(versions)]
        if number in versions:
            return versions[number]
        if not self.is_ready:
            raise NotReadyError("the models are still loading, or the server is stopping")
        statuses = self.get_statuses(name, number)
        if any(status.state == "LOADING" for status in statuses.values()):
            raise NotReadyError(f"model {name!r} is still loading; retry later")
        raise UnknownModelError(
            f"model {name!r} has no loaded version; the server log has the reason"
        )

    def list_models(self) -> list[dict[str, Any]]:
        """Return name, loaded versions, task and examples of each model with a loaded version."""
        return [
            {
                "name": name,
                "versions": [str(number) for number in sorted(versions, reverse=True)],
                "task": versions[max(versions)].model.task,
                "examples": versions[max(versions)].model.examples,
            }
            for name, versions in sorted(self._versions.items())
            if versions
        ]

    def get_statuses(self, name: str, number: int | None = None) -> dict[int, VersionStatus]:
        """Return the status of the versions of a model by number, or of one version.

        Raises:
            UnknownModelError: no model has this name, or it has no such version.
        """
        statuses = self._statuses.get(name)
        if statuses is None:
            known = ", ".join(sorted(self._statuses)) or "none"
            raise UnknownModelError(f"unknown model {name[:50]!r}; known: {known}")
        if number is None:
            return dict(sorted(statuses.items(), reverse=True))
        if number not in statuses:
            known = ", ".join(map(str, sorted(statuses)))
            raise UnknownModelError(f"model {name!r} has no version {number}; known: {known}")
        return {number: statuses[number]}

    async def update(self) -> list[str]:
        """Load what the configuration adds, and unload what it no longer has.

        Returns:
            The errors, one line each. The old versions remain for these.
        """
        async with self._lock:
            try:
                configs = await run_in_daemon(self._read_configs)
            except Exception as error:
                return [_describe(error)]
            errors: list[str] = []
            for config in configs:
                if self._is_closed:
                    return errors
                errors += await self._update_model(config)
            for name in self._versions.keys() - {config.name for config in configs}:
                for version in self._versions.pop(name).values():
                    self._unload(version)
            for name in self._statuses.keys() - {config.name for config in configs}:
                if not any(s.state == "UNLOADING" for s in self._statuses[name].values()):
                    del self._statuses[name]
            self.is_ready = not self._is_closed and (self.is_ready or not errors)
            return errors

    async def wait_for_unloading(self) -> None:
        """Wait until the versions that `update` has replaced or removed are unloaded."""
        await asyncio.gather(*self._draining)

    async def close(self) -> None:
        """Stop all queues after their last request."""
        versions = list(self)
        self._versions.clear()
        self._is_closed, self.is_ready = True, False
        await asyncio.gather(*(version.queue.close() for version in versions), *self._draining)

    async def _update_model(self, config: ModelConfig) -> list[str]:
        """Load the versions of one model, and unload the others; return the errors."""
        versions = self._versions.setdefault(config.name, {})
        try:
            wanted = await run_in_daemon(find_versions, config)
        except Exception as error:
            return [_describe(error)]
        errors = []
        statuses = self._statuses.setdefault(config.name, {})
        for number in [n for n, status in statuses.items() if status.state == "END"]:
            del statuses[number]
        for number, folder in wanted.items():
            old = versions.get(number)
            digest = await run_in_daemon(_compute_digest, folder)
            if old and (old.digest, old.limits) == (digest, config.limits):
                continue
            if old is None:
                self._set_status(config.name, number, VersionStatus("LOADING"))
            try:
                if old and old.digest == digest:
                    model = old.model
                else:
                    model = await run_in_daemon(self._load, folder)
            except Exception as error:
                errors.append(_describe(error))
                if old is None:
                    failed = VersionStatus("END", "the version cannot be loaded")
                    self._set_status(config.name, number, failed)
                continue
            if self._is_closed:
                return errors
            new = LoadedVersion(config.name, number, model, config.limits, self._observe_batch)
            new.digest = digest
            versions[number] = new
            self._set_status(config.name, number, VersionStatus("AVAILABLE"))
            log("a version is loaded", model=config.name, version=number)
            if old:
                self._unload(old, is_replaced=True)
        if not errors:
            for number in versions.keys() - wanted.keys():
                self._unload(versions.pop(number))
        return errors

    def _set_status(self, name: str, number: int, status: VersionStatus) -> None:
        self._statuses.setdefault(name, {})[number] = status

    def _unload(self, version: LoadedVersion, is_replaced: bool = False) -> None:
        """Unload a version after its last request."""
        if not is_replaced:
            self._set_status(version.name, version.number, VersionStatus("UNLOADING"))

        async def drain() -> None:
            await version.drain()
            log("a version is unloaded", model=version.name, version=version.number)
            statuses = self._statuses.get(version.name, {})
            if statuses.get(version.number) == VersionStatus("UNLOADING"):  # not loaded again
                del statuses[version.number]
            if not statuses:
                self._statuses.pop(version.name, None)

        task = asyncio.get_running_loop().create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)


def find_versions(config: ModelConfig) -> dict[int, Path]:
    """Return the folders of the configured versions of a model by number.

    Raises:
        ValueError: a folder is missing, or has neither an export nor versions.
    """
    folder = Path(config.path)
    if (folder / MANIFEST).exists() or (folder / GRAPH).exists():
        found = {1: folder}
    elif folder.is_dir():
        found = {
            int(path.name): path
            for path in folder.iterdir()
            if re.fullmatch("0|[1-9][0-9]{0,17}", path.name) and path.is_dir()
        }
    else:
        raise ValueError(f"{folder}: no such folder; `attention-zoo export` writes one")
    if not found:
        raise ValueError(
            f"{folder}: not an export ({MANIFEST} is missing), and has no folders of versions, such"
            f" as {folder.name}/1; `attention-zoo export` writes an export"
        )
    if config.versions == "all":
        return dict(sorted(found.items()))
    if config.versions == "latest":
        return {max(found): found[max(found)]}
    for number in config.versions:
        if number not in found:
            known = ", ".join(map(str, sorted(found)))
            raise ValueError(f"{folder}: version {number} is missing; known: {known}")
    return {number: found[number] for number in config.versions}


async def run_in_daemon(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a function that is called in a thread of its own.

    The end of the process does not wait for the thread, as it does for those of `asyncio`.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def finish(result: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = function(*arguments)
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await future


def _describe(error: Exception) -> str:
    """Return an error as one line; those other than ValueError with their type."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _compute_digest(folder: Path) -> str:
    """Return the SHA-256 of a manifest, or an empty string if it cannot be read."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            return hashlib.sha256(file.read(1 << 20)).hexdigest()
    except OSError:
        return ""
