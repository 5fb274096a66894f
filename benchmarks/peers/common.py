"""Shared parts of all benchmark scripts: sizes, inputs, timing and the printed result.

Peers run in their own environments, so this module does not import attention_zoo.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

BATCH = 128  # sentences per training step
SEARCH_BATCH = 32  # sentences per search
LENGTH = 20  # tokens, source and target
VOCABULARY = 8000  # per side
EMBEDDING = 256
UNITS = 256  # of each encoder direction, and of the decoder
BEAM = 5
START, END, FIRST_WORD = 2, 3, 4
WIDTHS = (8, 16, 24, 32)  # of the padded batches, in tokens

LAYERS, HEADS, WIDTH, INNER = 4, 4, 128, 256  # of the Transformer
DROPOUT = 0.3

DOCUMENTS = 32  # per batch of the hierarchical attention network
SENTENCES = (8, 16, 24, 32)  # of the padded batches of documents
LONGEST = 50  # words of a sentence
HAN_EMBEDDING, HAN_UNITS = 200, 100  # units of both directions together, and of the attention
HAN_CLASSES = 2

CHAINS, TOKENS, TAGS = 64, 50, 20  # sentences, tokens per sentence and tags of the CRF


def make_crf_inputs() -> tuple[Any, Any, Any, Any]:
    """Return CRF inputs: emissions `(CHAINS, TOKENS, TAGS)`, tags, lengths and transitions."""
    import numpy as np

    rng = np.random.default_rng(1)
    emissions = rng.normal(size=(CHAINS, TOKENS, TAGS)).astype("float32")
    tags = rng.integers(0, TAGS, (CHAINS, TOKENS)).astype("int32")
    lengths = rng.integers(TOKENS // 2, TOKENS + 1, CHAINS).astype("int32")
    lengths[0] = TOKENS
    return emissions, tags, lengths, 0.1 * rng.normal(size=(TAGS, TAGS)).astype("float32")


def make_batches(count: int) -> list[tuple[Any, Any]]:
    """Return batches `(source (N, W), target (N, W + 1))` of random token ids, padded with 0.

    Lengths are distributed as in Multi30k (11 words, rarely more than 30, similar on both sides)
    and bucketed into widths of 8, 16, 24 and 32. A batch has about 4,096 target tokens, including
    padding. The first four batches have one width each; `count` further batches follow.
    """
    import numpy as np

    rng = np.random.default_rng(1)
    lengths = np.clip(rng.lognormal(2.6, 0.3, 100_000), 4, 31).astype(int)
    others = np.clip(lengths + rng.integers(-2, 3, lengths.size), 3, 31)
    widths = -(-np.maximum(lengths, others + 1) // 8) * 8
    shares = [np.mean(widths == width) for width in WIDTHS]
    sampled = rng.choice(WIDTHS, count, p=shares)
    batches = []
    for width in [*WIDTHS, *sampled.tolist()]:
        rows = rng.choice(np.flatnonzero(widths == width), 4096 // width)
        source = rng.integers(FIRST_WORD, VOCABULARY, (len(rows), width))
        target = rng.integers(FIRST_WORD, VOCABULARY, (len(rows), width + 1))
        target[:, 0] = START
        source[np.arange(width) >= lengths[rows, None]] = 0
        target[np.arange(width + 1) > others[rows, None] + 1] = 0
        batches.append((source.astype("int32"), target.astype("int32")))
    return batches


def make_documents(count: int) -> list[tuple[Any, Any]]:
    """Return batches of documents `(DOCUMENTS, L, W)`, padded with 0, and their classes.

    Numbers of words of a sentence are distributed as in film reviews (20 words, at most 50). The
    documents of a batch have similar numbers of sentences, at most 8, 16, 24 or 32, as batches of
    buckets do. The first four batches have one maximum each; `count` further batches follow.
    """
    import numpy as np

    rng = np.random.default_rng(1)
    batches = []
    for maximum in [*SENTENCES, *rng.choice(SENTENCES, count).tolist()]:
        shape = (DOCUMENTS, maximum)
        words = np.clip(rng.lognormal(3.0, 0.5, shape), 2, LONGEST).astype(int)
        words[0, 0] = LONGEST
        numbers = rng.integers(maximum - 7, maximum + 1, DOCUMENTS)
        numbers[0] = maximum
        words[np.arange(maximum) >= numbers[:, None]] = 0
        tokens = rng.integers(FIRST_WORD, VOCABULARY, (*shape, LONGEST))
        tokens[np.arange(LONGEST) >= words[..., None]] = 0
        batches.append((tokens.astype("int32"), rng.integers(0, HAN_CLASSES, DOCUMENTS)))
    return batches


def time_documents(peer: str, train: Callable[[Any, Any], Any], count: int) -> None:
    """Report words per second of `train(tokens, classes)`, after two steps per shape."""
    batches = make_documents(count)
    first, timed = batches[: len(SENTENCES)], batches[len(SENTENCES) :]
    seconds = time_steps(train, first * 2, timed)
    words = sum(int((tokens != 0).sum()) for tokens, _ in timed)
    report(peer, "train", seconds / count, words_per_second=words / seconds)


def time_batches(peer: str, work: str, train: Callable[[Any, Any], Any], count: int) -> None:
    """Report target tokens per second of `train(source, target)`, after two steps per width."""
    batches = make_batches(count)
    first, timed = batches[: len(WIDTHS)], batches[len(WIDTHS) :]
    seconds = time_steps(train, first * 2, timed)
    tokens = sum(int((target[:, 1:] != 0).sum()) for _, target in timed)
    report(peer, work, seconds / count, tokens_per_second=tokens / seconds)


def time_steps(train: Callable[[Any, Any], Any], warm_up: list[Any], timed: list[Any]) -> float:
    """Return the wall time of the training steps on `timed`, after those on `warm_up`."""
    for batch in warm_up:
        train(*batch)
    start = time.perf_counter()
    for batch in timed:
        train(*batch)
    return time.perf_counter() - start


def arguments(description: str | None, choices: list[str]) -> argparse.Namespace:
    """Parse the command line: the measurements, the kind of attention and the number of steps."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", choices=choices, nargs="+", default=choices)
    parser.add_argument("--attention", choices=["bahdanau", "luong"], default="bahdanau")
    parser.add_argument("--steps", type=int, default=8, help="timed steps, after two warm-up steps")
    return parser.parse_args()


def median_seconds(step: Callable[[], Any], steps: int) -> float:
    """Return the median wall time of `steps` blocking calls, after two warm-up calls."""
    seconds = []
    for _ in range(2 + steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:])


def report(peer: str, work: str, seconds: float, **rate: float) -> None:
    """Print one JSON line: library, measurement, seconds per step, and the rate by unit."""
    rates = {name: round(value, 1) for name, value in rate.items()}
    print(json.dumps({"peer": peer, "work": work, "seconds": round(seconds, 4), **rates}))
