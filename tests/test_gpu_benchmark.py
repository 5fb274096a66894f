"""The benchmark script for one device: its table, and a run with tiny sizes on the CPU."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def gpu() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("gpu")


def make_case(gpu: Any, make_step: Callable[[], Any] = lambda: None, **options: Any) -> Any:
    values = {"name": "step", "precision": "mixed_float16", "jit": True, "count": 5120}
    return gpu.Case(**values | {"unit": "tokens", "make_step": make_step} | options)


def test_rows(gpu: Any) -> None:
    case = make_case(gpu)
    timing = gpu.Timing(first=12.345, median=0.5, peak_bytes=3 * 2**30)
    row = "| step | mixed_float16 | yes | 12.3 | 500.0 | 10,240 tokens | 3,072 |"
    assert gpu.format_row(case, timing) == row
    timing = gpu.Timing(first=0.1, median=0.00125, peak_bytes=None)
    row = "| step | float32 | no | 0.1 | 1.2 | 1,600 tokens |  |"
    assert gpu.format_row(make_case(gpu, precision="float32", jit=False, count=2), timing) == row
    row = "| step | mixed_float16 | yes | out of memory |  |  |  |"
    assert gpu.format_row(case, "out of memory") == row


@pytest.mark.parametrize(
    ("error", "cell", "message"),
    [
        (tf.errors.ResourceExhaustedError, "out of memory", ""),
        (tf.errors.UnimplementedError, "failed: UnimplementedError", "step: no kernel\n"),
    ],
)
def test_a_step_that_fails_is_a_row(
    gpu: Any, error: type[Exception], cell: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        assert keras.config.dtype_policy().name == "mixed_float16"
        raise error(None, None, "no kernel")

    row = gpu.measure_row(make_case(gpu, lambda: fail), 1)
    assert row == f"| step | mixed_float16 | yes | {cell} |  |  |  |"
    assert keras.config.dtype_policy().name == "float32"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("has_gpu", [True, False])
def test_memory_is_the_peak_of_later_calls(
    gpu: Any, has_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"current": 100, "peak": 100}

    def allocate(size: int) -> None:
        memory["current"] += size
        memory["peak"] = max(memory.values())

    def make_step() -> Callable[[], None]:
        sizes = iter([9000, 500, 700, 600])  # the first call needs most
        allocate(50)  # weights

        def step() -> None:
            size = next(sizes)
            allocate(size)
            allocate(-size)

        return step

    experimental = tf.config.experimental
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["GPU:0"] * has_gpu)
    monkeypatch.setattr(experimental, "get_memory_info", lambda device: dict(memory))
    reset = lambda device: memory.update(peak=memory["current"])  # noqa: E731
    monkeypatch.setattr(experimental, "reset_memory_stats", reset)
    timing = gpu.measure(make_case(gpu, make_step), rounds=1)
    assert timing.peak_bytes == (750 if has_gpu else None)


def test_the_table_covers_both_models_precisions_and_xla(gpu: Any) -> None:
    cases = gpu.make_cases(gpu.SIZES["base"], "mixed_bfloat16")
    rows = [(case.name, case.precision, case.jit) for case in cases]
    assert len({*rows}) == len(rows)
    for jit in (False, True):
        for name in ("rnnsearch_base", "transformer_base"):
            for precision in ("float32", "mixed_bfloat16"):
                assert (f"training step, {name}", precision, jit) in rows
            for search in ("greedy", "beam (5)"):
                assert (f"{search} search, {name}", "float32", jit) in rows
        for kind in ("blockwise", "with all weights"):
            assert (f"attention over 8,192 positions, {kind}", "float32", jit) in rows
    assert ("SavedModel of rnnsearch_small.dates_en_fr", "float32", False) in rows


def test_sections_are_appended(gpu: Any, tmp_path: Path) -> None:
    path, old = tmp_path / "results.md", "# Results\n\n## GPU\n\n  old\r\n\n\n"
    path.write_bytes(old.encode())
    gpu.append_section("GPU", ["| é |"], path)
    gpu.append_section("GPU", ["new"], path)
    added = "\n## GPU\n\n| é |\n\n## GPU\n\nnew\n"
    assert path.read_bytes().decode() == old + added
    gpu.append_section("GPU", ["new"], tmp_path / "other.md")
    assert (tmp_path / "other.md").read_text() == "# Results\n\n## GPU\n\nnew\n"


def test_the_device_is_named(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r".+, \d+ CPU cores", gpu.describe_device())
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    details = {"device_name": "NVIDIA T4", "compute_capability": (7, 5)}
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [device])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert gpu.describe_device() == "NVIDIA T4"
    lines = gpu.describe_run(gpu.SIZES["small"], 8)
    assert lines[-1].startswith("NVIDIA T4; attention_zoo ")
    for pattern in ("TensorFlow 2", "CUDA 1", "cuDNN 9", r"commit \w+", r"\d{4}-\d\d-\d\d\.$"):
        assert re.search(pattern, lines[-1])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: {})
    assert gpu.describe_device() == "/physical_device:GPU:0"


@pytest.mark.full
def test_a_run_with_tiny_sizes_appends_its_table(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text("# Results\n")
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--size", "smoke", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--results", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    head, section = path.read_text().split("\n", 1)
    assert head == "# Results"
    assert section.startswith("\n## On one device: ")
    assert section.strip() in done.stdout
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert {tuple(row[1:3]) for row in rows} == {
        ("float32", "no"),
        ("float32", "yes"),
        ("mixed_float16", "no"),
    }
    for row in rows:
        assert all(float(cell) >= 0 for cell in row[3:5]), row
