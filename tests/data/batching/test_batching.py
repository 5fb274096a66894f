import random
import subprocess
import sys
import time

import numpy as np
import pytest

from attention_zoo.data import LineBatches, PairBatches
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START
from tests.refusals import refuses


def make_corpus(size, max_length=30, seed=0):
    rng = random.Random(seed)
    sources = [rng.choices(range(4, 50), k=rng.randint(1, max_length)) for _ in range(size)]
    return sources, [
        rng.choices(range(4, 50), k=max(1, len(s) + rng.randint(-3, 3))) for s in sources
    ]


@pytest.fixture(scope="module")
def pairs():
    return make_corpus(203)


@pytest.fixture(scope="module")
def batches(pairs):
    return PairBatches(*pairs, batch_size=16, seed=3)


def equals(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in (
            (one[0]["source"], other[0]["source"]),
            (one[0]["target"], other[0]["target"]),
            (one[1], other[1]),
        )
    )


def test_epochs_and_seeds_group_examples_differently(pairs, batches):
    def get_batch_sets(batches_of, number):
        steps = range(number * 13, (number + 1) * 13)
        return {frozenset(batches_of.get_rows(step).tolist()) for step in steps}

    other = PairBatches(*pairs, batch_size=16, seed=4)
    assert len(get_batch_sets(batches, 0) & get_batch_sets(batches, 1)) < 3
    assert len(get_batch_sets(batches, 0) & get_batch_sets(other, 0)) < 3
    order = [int(batches.get_rows(step)[0]) for step in range(13)]
    assert order != [int(batches.get_rows(step)[0]) for step in range(13, 26)]


def test_order_does_not_change():
    sources = [[5] * (1 + i % 3) for i in range(10)]
    rows = [
        PairBatches(sources, sources, 4, seed=1, bucket_width=2).get_rows(s).tolist()
        for s in range(3)
    ]
    assert rows == KNOWN_ROWS


KNOWN_ROWS = [[1, 4, 7, 2], [5, 8], [0, 6, 3, 9]]


def test_bucket_lengths_include_the_start_token():
    """Targets of 3 tokens and the start token fill a bucket of 4; 4 tokens need the next one."""
    lengths = [3, 4] * 8
    batches = PairBatches([[5]] * 16, [[6] * n for n in lengths], 4, seed=1, bucket_width=4)
    for step in range(4):
        assert len({lengths[row] for row in batches.get_rows(step)}) == 1


def test_targets_have_start_token_and_labels_end_token(pairs, batches):
    sources, targets = pairs
    for step in range(13):
        rows = batches.get_rows(step)
        inputs, labels = batches.make_batch(rows)
        for i, row in enumerate(rows):
            size = len(targets[row]) + 1
            assert inputs["source"][i].tolist()[: len(sources[row])] == sources[row]
            assert not inputs["source"][i, len(sources[row]) :].any()
            assert inputs["target"][i].tolist()[:size] == [START, *targets[row]]
            assert labels[i].tolist()[:size] == [*targets[row], END]
            assert (labels[i, size:] == PAD).all()


def test_targets_and_labels_have_equal_padding(batches):
    for step in range(13):
        inputs, labels = batches.make_batch(batches.get_rows(step))
        assert ((inputs["target"] == PAD) == (labels == PAD)).all()


@pytest.mark.parametrize("width", [1, 4, 8])
def test_shapes_are_smallest_multiples_of_the_bucket_width(pairs, width):
    batches = PairBatches(*pairs, batch_size=16, seed=3, bucket_width=width)
    for step in range(13):
        rows = batches.get_rows(step)
        inputs, labels = batches.make_batch(rows)
        for array, needed in (
            (inputs["source"], max(len(pairs[0][row]) for row in rows)),
            (inputs["target"], 1 + max(len(pairs[1][row]) for row in rows)),
            (labels, 1 + max(len(pairs[1][row]) for row in rows)),
        ):
            assert array.dtype == np.int32
            assert array.shape == (len(rows), -(-needed // width) * width)


def test_batches_contain_pairs_of_similar_length():
    sources, targets = make_corpus(4000)
    batches = PairBatches(sources, targets, batch_size=32, seed=0)
    num_positions = num_tokens = 0
    for step in range(batches.steps_per_epoch):
        inputs, labels = batches.make_batch(batches.get_rows(step))
        num_positions += inputs["source"].size + labels.size
        num_tokens += np.count_nonzero(inputs["source"]) + np.count_nonzero(labels)
    assert num_tokens / num_positions > 0.8  # 0.53 without buckets


def test_dataset_is_repeatable_and_may_be_infinite(batches):
    dataset = batches.dataset(5, 8)
    assert dataset.element_spec[0]["source"].shape.as_list() == [None, None]
    first, second = list(dataset.as_numpy_iterator()), list(dataset.as_numpy_iterator())
    assert all(equals(one, other) for one, other in zip(first, second, strict=True))
    infinite = list(batches.dataset(5).take(30).as_numpy_iterator())
    assert len(infinite) == 30
    assert all(equals(one, other) for one, other in zip(first, infinite, strict=False))


def test_corpus_of_one_pair():
    batches = PairBatches([[7]], [[8, 9]], batch_size=64, seed=0)
    assert batches.steps_per_epoch == 1
    (inputs, labels), _ = batches.dataset(0, 2).as_numpy_iterator()
    assert inputs["source"].tolist() == [[7, 0, 0, 0]]
    assert inputs["target"].tolist() == [[START, 8, 9, 0]]
    assert labels.tolist() == [[8, 9, END, 0]]


def test_batches_are_fast():
    batches = PairBatches(*make_corpus(20_000), batch_size=64, seed=0)
    list(batches.dataset(0, 5))
    start = time.perf_counter()
    num_batches = sum(1 for _ in batches.dataset(0, 300))
    assert num_batches / (time.perf_counter() - start) > 150


@refuses(
    (([], [], 1, 0), "cannot make batches: there are no examples"),
    (([[4]], [[4], [5]], 1, 0), "one target per source, got 1 sources and 2 targets"),
    (([[4], []], [[4], [5]], 1, 0), "the source of pair 2 is empty"),
    (([[4], [5]], [[], [5]], 1, 0), "the target of pair 1 is empty"),
)
def test_invalid_pairs_raise(arguments):
    PairBatches(*arguments)


@refuses(
    (([], 1, 0), "cannot make batches: there are no examples"),
    (([[4], []], 1, 0), "line 2 is empty"),
)
def test_invalid_lines_raise(arguments):
    LineBatches(*arguments)


def test_lines_have_start_token_and_labels_end_token():
    lines = make_corpus(50)[0]
    batches = LineBatches(lines, batch_size=8, seed=2, bucket_width=4)
    rows_seen = []
    for step in range(batches.steps_per_epoch):
        inputs, labels = batches.get_batch(step)
        tokens = inputs["tokens"]
        assert tokens.shape == labels.shape
        assert tokens.dtype == labels.dtype == np.int32
        assert ((tokens == PAD) == (labels == PAD)).all()
        assert tokens.shape[1] % 4 == 0
        longest = max(len(lines[row]) for row in batches.get_rows(step))
        assert tokens.shape[1] - longest - 1 < 4
        for row, row_tokens, row_labels in zip(batches.get_rows(step), tokens, labels, strict=True):
            rows_seen.append(int(row))
            size = len(lines[row]) + 1
            assert row_tokens[:size].tolist() == [START, *lines[row]]
            assert row_labels[:size].tolist() == [*lines[row], END]
            assert not row_tokens[size:].any()
    assert sorted(rows_seen) == list(range(50))


def test_examples_keep_corpus_numbers():
    batches = LineBatches(make_corpus(21)[0], 4, seed=5, numbers=range(101, 122))
    assert batches.get_example_numbers(3) == sorted(101 + batches.get_rows(3))


@pytest.mark.full
def test_importing_data_imports_neither_tensorflow_nor_babel():
    script = (
        "import os, sys; os.environ['KERAS_BACKEND'] = 'jax'; import attention_zoo.data as d;"
        "d.train_tokenizer('word', ['a b']).encode(['a']);"
        "d.PairBatches([[4]], [[5]], 1, 0).get_rows(3);"
        "print([m for m in ('tensorflow', 'babel', 'tensorflow_datasets') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
