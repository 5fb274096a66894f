"""`attention-zoo serve` against BentoML and Ray Serve: speed, and behaviour under hostile clients.

    python benchmarks/serving.py --serving-python .venv-serving/bin/python \
        [--parts start overhead load peers disconnects slow equality capacity] \
        [--size 1000] [--rounds 3] [--exports FOLDER] [--dry-run]

All servers serve the same export of a translator. The requests have one sentence each, all
different. The load generator is a process of its own. Each part is a section of results.md:

- start: time from the start of the process until /readyz has status 200
- overhead: time of a request against that of a call of the export in a process
- load: throughput and latency, one client and 16 concurrent ones
- peers: the same for the peers, in turn
- disconnects: memory and results while clients disconnect, with ten times as many requests
- slow: latency with 300 Slowloris connections (headers that never end) and bodies of 200 MB
- equality: predictions of each task against those of `task.predict`
- capacity: requests per second, latency and memory for each task
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from serving_equality import NUM_CLIENTS, export_entry, measure_capacity, measure_equality
from serving_load import (
    HOST,
    LARGE,
    NUM_LARGE,
    Load,
    Response,
    get_prediction,
    percentile,
    run_load,
    run_slow_clients,
)
from serving_processes import Kind, Server, make_peers, start_server
from side_by_side import describe_device, write_section

import attention_zoo as az

ENTRY = "rnnsearch_small.dates_en_fr"
FIELDS = ("text", "source_tokens")
NUM_STARTS, NUM_CONNECTIONS, DISCONNECTS = 5, 300, 0.2
BLOCK = 50
"""Sentences that are called in the process, then over HTTP. If each were, the threads of both
processes would compete."""
ZOO = Kind("attention_zoo")
MB = 10**6

Expected = Sequence[dict[str, Any]]


class Errors(NamedTuple):
    """Number of wrong responses.

    Attributes:
        lost: without a result.
        swapped: with the result of another request.
        different: with a result of no request.
    """

    lost: int
    swapped: int
    different: int


def strip_padding(values: dict[str, Any]) -> tuple[Any, ...]:
    """Return the source tokens and the text of a prediction, without padding."""
    tokens = list(values["source_tokens"])
    while tokens and not tokens[-1]:
        tokens.pop()
    return tuple(tokens), tuple(values["text"])


def count_errors(expected: Expected, responses: Sequence[Response | None]) -> Errors:
    """Compare responses with the predictions of their own requests.

    Skip those of clients that disconnected (None).
    """
    known = {strip_padding(values) for values in expected}
    errors = {"lost": 0, "swapped": 0, "different": 0}
    for values, response in zip(expected, responses, strict=True):
        if response is None:
            continue
        if not response.values:
            errors["lost"] += 1
        elif (got := strip_padding(response.values)) != strip_padding(values):
            errors["swapped" if got in known else "different"] += 1
    return Errors(**errors)


class Workload:
    """Sentences, and their predictions by an export in this process.

    Args:
        export: folder of the export.
        size: number of sentences.
    """

    def __init__(self, export: Path, size: int) -> None:
        self.export = export
        self.sentences = list(az.data.generate_dates(size, split="test").sources)
        self._module = tf.saved_model.load(str(export))
        self._signature = self._module.signatures["serving_default"]

    def call(self, sentences: Sequence[str]) -> dict[str, Any]:
        """Return the outputs of the export as arrays."""
        outputs = self._signature(text=tf.constant(sentences))
        return {name: output.numpy() for name, output in outputs.items()}

    def predict(self, sentences: Sequence[str]) -> Expected:
        """Return the fields of the prediction of each sentence."""
        rows: list[dict[str, Any]] = []
        for start in range(0, len(sentences), 32):
            outputs = self.call(sentences[start : start + 32])
            columns = [
                [[word.decode() for word in row] for row in outputs[name].tolist()]
                for name in FIELDS
            ]
            rows += [dict(zip(FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]
        return rows


def send(
    kind: Kind,
    server: Server,
    sentences: Sequence[str],
    num_clients: int,
    disconnects: float = 0.0,
) -> tuple[float, list[Response | None]]:
    """Send a request for each sentence; see `run_load`."""
    bodies = list(map(kind.make_body, sentences))
    load = Load(server.port, server.path, bodies, FIELDS, num_clients, disconnects)
    return run_load(load)


def measure_start(work: Workload, options: argparse.Namespace) -> list[str]:
    """Measure the time until the server is ready."""
    seconds = []
    for _ in range(NUM_STARTS):
        with start_server(ZOO, work.export) as server:
            seconds.append(server.seconds)
    return [
        f"From the start of the process until `/readyz` has status 200: median"
        f" **{statistics.median(seconds):.1f} s** of {NUM_STARTS} starts ({min(seconds):.1f} to"
        f" {max(seconds):.1f} s). Target: at most 8 s."
    ]


def measure_overhead(work: Workload, options: argparse.Namespace) -> list[str]:
    """Measure requests and calls of the export in this process, in turn."""
    sentences = work.sentences[: options.size]
    times: dict[str, list[float]] = {"process": [], "http": []}
    with start_server(ZOO, work.export) as server:
        connection = http.client.HTTPConnection(HOST, server.port, timeout=60)

        def request(sentence: str) -> None:
            connection.request("POST", server.path, ZOO.make_body(sentence).encode())
            content = connection.getresponse().read()
            assert get_prediction(json.loads(content))["ok"]

        calls: dict[str, Callable[[str], Any]] = {
            "process": lambda sentence: work.call([sentence]),
            "http": request,
        }
        for block in (sentences[n : n + BLOCK] for n in range(0, len(sentences), BLOCK)):
            connection.close()  # the server closes idle ones; the next request connects again
            for name, call in calls.items():
                for is_measured, sentence in itertools.product((False, True), block):
                    start = time.perf_counter()
                    call(sentence)
                    if is_measured:
                        times[name].append(1000 * (time.perf_counter() - start))
        connection.close()
    process, over_http = (statistics.median(values) for values in times.values())
    difference = statistics.median(np.subtract(times["http"], times["process"]).tolist())
    return [
        "| | median ms |",
        "|---|---|",
        f"| call of the export in a process | {process:.2f} |",
        f"| request, with parsing of the response | {over_http:.2f} |",
        f"| difference for a sentence | {difference:.2f} |",
        "",
        f"Overhead: **{100 * (over_http / process - 1):.1f} %** ({len(sentences):,} sentences, one"
        f" at a time, {BLOCK} in the process and then over HTTP, each twice). Target: at most"
        " 10 %.",
    ]


def measure_load(work: Workload, options: argparse.Namespace) -> list[str]:
    """Measure throughput and latency of the servers, in turn."""
    kinds: list[Kind] = [ZOO]
    if "peers" in options.parts:
        kinds += make_peers(options.serving_python)
    sentences = work.sentences[: options.size]
    expected = work.predict(sentences)
    results: dict[str, list[list[float]]] = {kind.name: [] for kind in kinds}
    for number in range(options.rounds):
        for kind in kinds:
            results[kind.name].append(measure_server(kind, work, sentences, expected))
            print(f"round {number + 1}: {kind.name}: {results[kind.name][-1]}", flush=True)
    lines = [
        "| server | clients | requests/s | p50, ms | p99, ms | wrong | start, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rounds in results.items():
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        start, one, many = medians[0], medians[1:5], medians[5:]
        for clients, (rate, middle, high, wrong) in ((1, one), (NUM_CLIENTS, many)):
            cells = f"{rate:.1f} | {middle:.0f} | {high:.0f} | {wrong:.0f} | {start:.1f}"
            lines.append(f"| {name} | {clients} | {cells} |")
        if name == ZOO.name:
            ratios = many[0] / one[0], many[2] / many[1]
    return [
        *lines,
        "",
        f"attention_zoo with {NUM_CLIENTS} clients: throughput **{ratios[0]:.1f}** times that of"
        f" one client (target: at least 3), p99 **{ratios[1]:.1f}** times p50 (target: at most 3).",
        "",
        f"{len(sentences):,} requests, median of {options.rounds} rounds; {describe_device()}."
        " Batches of at most 32, one process or replica. Requests wait for a batch for at most"
        " 5 ms; BentoML determines this time itself. Wrong: responses without the result of their"
        " request.",
    ]


def measure_server(
    kind: Kind, work: Workload, sentences: Sequence[str], expected: Expected
) -> list[float]:
    """Return the seconds of the start, and four figures for each number of clients."""
    with start_server(kind, work.export) as server:
        figures = [server.seconds]
        send(kind, server, sentences[:50], 1)  # warm-up
        send(kind, server, sentences[:200], NUM_CLIENTS)
        for num_clients in (1, NUM_CLIENTS):
            seconds, responses = send(kind, server, sentences, num_clients)
            times = [1000 * one.seconds for one in responses if one is not None]
            wrong = sum(count_errors(expected, responses))
            rate = len(sentences) / seconds
            figures += [rate, percentile(times, 0.5), percentile(times, 0.99), wrong]
    return figures


def measure_disconnects(work: Workload, options: argparse.Namespace) -> list[str]:
    """Measure memory and results while clients disconnect."""
    sentences = work.sentences
    expected = work.predict(sentences)
    with start_server(ZOO, work.export) as server:
        send(ZOO, server, sentences[: len(sentences) // 5], NUM_CLIENTS, DISCONNECTS)
        before = server.measure_memory()
        _, responses = send(ZOO, server, sentences, NUM_CLIENTS, DISCONNECTS)
        time.sleep(2)  # the requests of disconnected clients end
        growth = (server.measure_memory() - before) / MB
        _, later = send(ZOO, server, sentences[:50], 1)
    errors = count_errors(expected, responses)
    num_disconnects = sum(one is None for one in responses)
    return [
        "| requests | disconnects | lost | swapped | different | memory, MB | growth, MB |",
        "|---|---|---|---|---|---|---|",
        f"| {len(sentences):,} | {num_disconnects:,} | {errors.lost} | {errors.swapped} |"
        f" {errors.different} | {before / MB:,.0f} | {growth:.1f} |",
        "",
        f"{NUM_CLIENTS} clients. {DISCONNECTS:.0%} of the requests disconnect after half of the"
        " request or all of it. Lost: no result; swapped: that of another request; different: any"
        " other. Memory: resident set size (RSS) before the requests, after a warm-up with a fifth"
        f" of them. Errors of 50 later requests: {sum(count_errors(expected[:50], later))}."
        " Targets: no errors, a growth of at most 20 MB.",
    ]


def measure_slow(work: Workload, options: argparse.Namespace) -> list[str]:
    """Measure one client, with and without concurrent slow clients."""
    sentences = work.sentences[: max(1, options.size // 5)]
    expected = work.predict(sentences)
    times: dict[str, list[float]] = {"alone": [], "with slow clients": []}
    errors = dict.fromkeys(times, 0)

    def measure(name: str) -> None:
        _, responses = send(ZOO, server, sentences, 1)
        times[name] += [1000 * one.seconds for one in responses if one is not None]
        errors[name] += sum(count_errors(expected, responses))

    with start_server(ZOO, work.export) as server:
        send(ZOO, server, sentences, 1)  # warm-up
        for _ in range(options.rounds):
            measure("alone")
            with run_slow_clients(server.port, server.path, NUM_CONNECTIONS):
                measure("with slow clients")
    lines = ["| client | p50, ms | p99, ms | wrong |", "|---|---|---|---|"]
    for name, values in times.items():
        cells = f"{percentile(values, 0.5):.1f} | {percentile(values, 0.99):.1f} | {errors[name]}"
        lines.append(f"| {name} | {cells} |")
    alone, with_slow = (statistics.median(values) for values in times.values())
    return [
        *lines,
        "",
        f"Ratio of medians: **{with_slow / alone:.2f}** ({len(times['alone']):,} requests each, in"
        f" {options.rounds} rounds). Slow clients: {NUM_CONNECTIONS} connections with half a"
        f" header, opened again when the server closes them, and {NUM_LARGE} clients that send"
        f" bodies of {LARGE // 10**6} MB, with and without a declared length, one after another;"
        " all on the same machine. Target: at most 2.",
    ]


Measure = Callable[[Workload, argparse.Namespace], list[str]]

SECTIONS: dict[str, tuple[str, Measure]] = {
    "start": ("Serving: start", measure_start),
    "overhead": ("Serving: overhead of HTTP", measure_overhead),
    "load": ("Serving: throughput and latency", measure_load),
    "disconnects": ("Serving: disconnecting clients", measure_disconnects),
    "slow": ("Serving: slow clients and large bodies", measure_slow),
}
PARTS = (*SECTIONS, "peers", "equality", "capacity")


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serving-python", help="interpreter with the peers, for the part peers")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument("--size", type=int, default=1000, help="number of requests or inputs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--exports", help="folder of exports, to use them again")
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_args()
    if "peers" in options.parts:
        if not options.serving_python:
            parser.error("the part peers needs --serving-python")
        options.parts = [*options.parts, "load"]
    return options


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="exports-") as temporary:
        exports = Path(options.exports or temporary).absolute()
        exports.mkdir(parents=True, exist_ok=True)
        if {*SECTIONS} & {*options.parts}:
            is_long = "disconnects" in options.parts
            size = options.size * (10 if is_long else 1)
            work = Workload(export_entry(ENTRY, exports), size)
        for part, (title, measure) in SECTIONS.items():
            if part in options.parts:
                write_section(title, measure(work, options), options.dry_run)
        if "equality" in options.parts:
            lines = measure_equality(options.size, exports)
            write_section("Serving: equality with predict", lines, options.dry_run)
        if "capacity" in options.parts:
            lines = measure_capacity(options.size, exports)
            write_section("Serving: capacity", lines, options.dry_run)


if __name__ == "__main__":
    main()
