"""Versions of models are loaded, exchanged and unloaded, also under load."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.files import MANIFEST
from attention_zoo.serving.config import Limits, ModelConfig
from attention_zoo.serving.model_manager import (
    ModelManager,
    NotReadyError,
    UnknownModelError,
    find_versions,
)
from attention_zoo.serving.served_model import BatchKey
from attention_zoo.serving.server import freeze_objects
from tests.serving.local_server import Upper

KEY = BatchKey("serving_default", (("text", ()),), ())
ROW = {"text": np.array(b"b", object)}


class Exports:
    """Folders of exports, and a configuration of the model `a`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configs = [ModelConfig(name="a", path=str(folder / "a"))]
        self.loaded: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.manager = ModelManager(lambda: self.configs, self.load)

    def write(self, path: str, content: str = "") -> None:
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        (self.folder / path / MANIFEST).write_text(content or path)

    def load(self, folder: Path) -> Upper:
        assert self.gate.wait(20)
        content = (folder / MANIFEST).read_text()
        if content == "damaged":
            raise ValueError(f"{folder}: damaged")
        self.loaded.append(content)
        return Upper(content)

    def states(self, name: str = "a") -> dict[int, str]:
        statuses = self.manager.get_statuses(name)
        return {number: status.state for number, status in statuses.items()}


@pytest.fixture
def exports(tmp_path: Path) -> Exports:
    return Exports(tmp_path)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 20))


def test_the_latest_version_is_loaded(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a/9")
        exports.write("a/10")
        (exports.folder / "a" / "11.tmp").mkdir()
        assert not exports.manager.is_ready
        assert await exports.manager.update() == []
        assert exports.manager.is_ready
        assert exports.loaded == ["a/10"]
        assert exports.manager.find("a").number == 10
        with pytest.raises(UnknownModelError, match="model 'a' has no version 9; known: 10"):
            exports.manager.find("a", 9)
        with pytest.raises(UnknownModelError, match="unknown model 'b'; known: a"):
            exports.manager.find("b")
        await exports.manager.close()

    run(check())


def test_a_version_is_exchanged_after_its_last_request(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a/1")
        await exports.manager.update()
        old = exports.manager.find("a")
        exports.write("a/2")
        with old.hold():
            await exports.manager.update()
            assert exports.manager.find("a").number == 2
            assert exports.states() == {2: "AVAILABLE", 1: "UNLOADING"}
            assert await old.queue.submit(KEY, [ROW], 5) == [{"text": b"Ba/1"}]
        await exports.manager.wait_for_unloading()
        assert exports.states() == {2: "AVAILABLE"}
        assert exports.loaded == ["a/1", "a/2"]
        await exports.manager.close()

    run(check())


def test_the_old_version_serves_while_the_new_one_loads(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a/1")
        await exports.manager.update()
        exports.write("a/2")
        exports.gate.clear()
        update = asyncio.create_task(exports.manager.update())
        while exports.states() != {2: "LOADING", 1: "AVAILABLE"}:
            await asyncio.sleep(0.001)
        assert exports.manager.find("a").number == 1
        with pytest.raises(NotReadyError, match="model 'a' is still loading"):
            exports.manager.find("a", 2)
        exports.gate.set()
        await update
        assert exports.manager.find("a").number == 2
        await exports.manager.close()

    run(check())


def test_a_damaged_version_leaves_the_old_one(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a/1")
        await exports.manager.update()
        exports.write("a/2", "damaged")
        (error,) = await exports.manager.update()
        assert error.endswith("a/2: damaged")
        assert exports.manager.find("a").number == 1
        assert exports.states() == {2: "END", 1: "AVAILABLE"}
        assert exports.manager.get_statuses("a", 2)[2].error == "the version cannot be loaded"
        shutil.rmtree(exports.folder / "a" / "2")
        assert await exports.manager.update() == []
        assert exports.states() == {1: "AVAILABLE"}
        assert exports.loaded == ["a/1"]
        await exports.manager.close()

    run(check())


def test_a_damaged_version_unloads_no_other(exports: Exports) -> None:
    async def check() -> None:
        for number, content in ((1, ""), (2, ""), (3, "damaged")):
            exports.write(f"a/{number}", content)
        for versions in ((1, 2), (1, 3)):
            exports.configs = [
                ModelConfig(name="a", path=str(exports.folder / "a"), versions=versions)
            ]
            await exports.manager.update()
        assert exports.states() == {3: "END", 2: "AVAILABLE", 1: "AVAILABLE"}
        await exports.manager.close()

    run(check())


def test_models_are_not_ready_before_the_first_load(exports: Exports) -> None:
    """Nor after the end, also if a load ends later."""

    async def check() -> None:
        exports.write("a")
        exports.gate.clear()
        with pytest.raises(NotReadyError):
            exports.manager.find("b")
        update = asyncio.create_task(exports.manager.update())
        await asyncio.sleep(0.01)
        await exports.manager.close()
        exports.gate.set()
        assert await update == []
        assert not exports.manager.is_ready
        assert [*exports.manager] == []
        with pytest.raises(NotReadyError):
            exports.manager.find("a")

    run(check())


def test_unexpected_errors_are_reported(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a")
        exports.manager._load = lambda folder: [][1]
        assert await exports.manager.update() == ["IndexError: list index out of range"]
        assert not exports.manager.is_ready

    run(check())


def test_models_are_added_and_removed(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a")
        exports.write("b")
        await exports.manager.update()
        exports.configs = [ModelConfig(name="b", path=str(exports.folder / "b"))]
        await exports.manager.update()
        await exports.manager.wait_for_unloading()
        assert exports.manager.find("b").number == 1
        with pytest.raises(UnknownModelError, match="unknown model 'a'; known: b"):
            exports.manager.find("a")
        exports.configs.append(ModelConfig(name="a", path=str(exports.folder / "a")))
        await exports.manager.update()
        assert exports.manager.find("a").number == 1
        assert [model["name"] for model in exports.manager.list_models()] == ["a", "b"]
        await exports.manager.close()

    run(check())


def test_a_model_is_added_again_while_it_is_unloaded(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a")
        await exports.manager.update()
        configs, exports.configs = exports.configs, []
        with exports.manager.find("a").hold():
            await exports.manager.update()
            assert exports.states() == {1: "UNLOADING"}
            exports.configs = configs
            exports.gate.clear()
            update = asyncio.create_task(exports.manager.update())
        await exports.manager.wait_for_unloading()
        exports.gate.set()
        await update
        assert exports.states() == {1: "AVAILABLE"}
        assert exports.manager.find("a").model.suffix == b"a"
        await exports.manager.close()

    run(check())


def test_a_replaced_export_and_new_limits_are_loaded(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a", "first")
        await exports.manager.update()
        exports.write("a", "second")
        await exports.manager.update()
        assert exports.loaded == ["first", "second"]
        exports.configs = [
            ModelConfig(name="a", path=str(exports.folder / "a"), limits=Limits(timeout=1))
        ]
        await exports.manager.update()
        await exports.manager.wait_for_unloading()
        assert exports.loaded == ["first", "second"]
        loaded = exports.manager.find("a")
        assert (loaded.limits.timeout, loaded.model.suffix) == (1, b"second")
        assert exports.states() == {1: "AVAILABLE"}
        await exports.manager.close()

    run(check())


def test_an_invalid_configuration_changes_nothing(exports: Exports) -> None:
    async def check() -> None:
        exports.write("a")
        await exports.manager.update()
        exports.manager._read_configs = _raise
        assert await exports.manager.update() == ["serve.yaml: not YAML"]
        assert exports.manager.find("a").number == 1
        await exports.manager.close()

    def _raise() -> Any:
        raise ValueError("serve.yaml: not YAML")

    run(check())


@pytest.mark.parametrize(
    ("versions", "expected"),
    [("latest", [12]), ("all", [2, 12]), ((2,), [2])],
)
def test_policies_of_versions(exports: Exports, versions: Any, expected: list[int]) -> None:
    for number in (2, 12):
        exports.write(f"a/{number}")
    config = ModelConfig(name="a", path=str(exports.folder / "a"), versions=versions)
    assert [*find_versions(config)] == expected


def test_folders_without_versions_are_refused(exports: Exports) -> None:
    config = ModelConfig(name="a", path=str(exports.folder / "a"), versions=(3,))
    with pytest.raises(ValueError, match="a: no such folder"):
        find_versions(config)
    (exports.folder / "a").mkdir()
    with pytest.raises(ValueError, match=r"not an export \(manifest.json is missing\)"):
        find_versions(config)
    exports.write("a/1")
    with pytest.raises(ValueError, match="version 3 is missing; known: 1"):
        find_versions(config)


def test_unloaded_versions_free_their_memory(exports: Exports) -> None:
    """Also if the collector ignores the objects that existed before."""

    async def check() -> None:
        exports.write("a", "first")
        await exports.manager.update()
        freeze_objects()
        model = weakref.ref(exports.manager.find("a").model)
        exports.write("a", "second")
        await exports.manager.update()
        await exports.manager.wait_for_unloading()
        freeze_objects()
        assert model() is None
        await exports.manager.close()

    try:
        run(check())
    finally:
        gc.unfreeze()
