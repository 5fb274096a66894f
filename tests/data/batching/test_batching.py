import random
import subprocess
import sys
import time

import numpy as np
import pytest

from attention_zoo.data import LineBatches, PairBatches
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START
from tests.refusals import refuses


def corpus(size, longest=30, seed=0):
    draw = random.Random(seed)
    sources = [draw.choices(range(4, 50), k=draw.randint(1, longest)) for _ in range(size)]
    return sources, [
        draw.choices(range(4, 50), k=max(1, len(s) + draw.randint(-3, 3))) for s in sources
    ]


@pytest.fixture(scope="module")
def pairs():
    return corpus(203)


@pytest.fixture(scope="module")
def batches(pairs):
    return PairBatches(*pairs, batch_size=16, seed=3)


def same(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in (
            (one[0]["source"], other[0]["source"]),
            (one[0]["target"], other[0]["target"]),
            (one[1], other[1]),
        )
    )


def test_passes_and_seeds_differ_in_more_than_the_order_of_batches(pairs, batches):
    def cut(of, number):
        steps = range(number * 13, (number + 1) * 13)
        return {frozenset(of.rows(step).tolist()) for step in steps}

    other = PairBatches(*pairs, batch_size=16, seed=4)
    assert len(cut(batches, 0) & cut(batches, 1)) < 3
    assert len(cut(batches, 0) & cut(other, 0)) < 3
    order = [int(batches.rows(step)[0]) for step in range(13)]
    assert order != [int(batches.rows(step)[0]) for step in range(13, 26)]


def test_the_order_is_the_same_for_ever():
    sources = [[5] * (1 + i % 3) for i in range(10)]
    rows = [
        PairBatches(sources, sources, 4, seed=1, bucket_width=2).rows(s).tolist() for s in range(3)
    ]
    assert rows == KNOWN_ROWS


KNOWN_ROWS = [[1, 4, 7, 2], [5, 8], [0, 6, 3, 9]]


def test_buckets_count_the_start_token():
    """With it, targets of 3 tokens fill a bucket of 4, and those of 4 are in the next one."""
    lengths = [3, 4] * 8
    batches = PairBatches([[5]] * 16, [[6] * n for n in lengths], 4, seed=1, bucket_width=4)
    for step in range(4):
        assert len({lengths[row] for row in batches.rows(step)}) == 1


def test_targets_start_and_labels_end(pairs, batches):
    sources, targets = pairs
    for step in range(13):
        rows = batches.rows(step)
        inputs, labels = batches.batch(rows)
        for i, row in enumerate(rows):
            size = len(targets[row]) + 1
            assert inputs["source"][i].tolist()[: len(sources[row])] == sources[row]
            assert not inputs["source"][i, len(sources[row]) :].any()
            assert inputs["target"][i].tolist()[:size] == [START, *targets[row]]
            assert labels[i].tolist()[:size] == [*targets[row], END]
            assert (labels[i, size:] == PAD).all()


def test_where_there_is_no_label_the_target_is_padding(batches):
    for step in range(13):
        inputs, labels = batches.batch(batches.rows(step))
        assert ((inputs["target"] == PAD) == (labels == PAD)).all()


@pytest.mark.parametrize("width", [1, 4, 8])
def test_shapes_are_multiples_of_the_width_and_no_larger_than_needed(pairs, width):
    batches = PairBatches(*pairs, batch_size=16, seed=3, bucket_width=width)
    for step in range(13):
        rows = batches.rows(step)
        inputs, labels = batches.batch(rows)
        for array, needed in (
            (inputs["source"], max(len(pairs[0][row]) for row in rows)),
            (inputs["target"], 1 + max(len(pairs[1][row]) for row in rows)),
            (labels, 1 + max(len(pairs[1][row]) for row in rows)),
        ):
            assert array.dtype == np.int32
            assert array.shape == (len(rows), -(-needed // width) * width)


def test_batches_hold_pairs_of_similar_length():
    sources, targets = corpus(4000)
    batches = PairBatches(sources, targets, batch_size=32, seed=0)
    places = filled = 0
    for step in range(batches.steps_per_pass):
        inputs, labels = batches.batch(batches.rows(step))
        places += inputs["source"].size + labels.size
        filled += np.count_nonzero(inputs["source"]) + np.count_nonzero(labels)
    assert filled / places > 0.8  # pairs at random: 0.53


def test_a_dataset_can_be_read_twice_and_may_have_no_end(batches):
    dataset = batches.dataset(5, 8)
    assert dataset.element_spec[0]["source"].shape.as_list() == [None, None]
    first, second = list(dataset.as_numpy_iterator()), list(dataset.as_numpy_iterator())
    assert all(same(one, other) for one, other in zip(first, second, strict=True))
    endless = list(batches.dataset(5).take(30).as_numpy_iterator())
    assert len(endless) == 30
    assert all(same(one, other) for one, other in zip(first, endless, strict=False))


def test_one_pair_is_a_corpus():
    batches = PairBatches([[7]], [[8, 9]], batch_size=64, seed=0)
    assert batches.steps_per_pass == 1
    (inputs, labels), _ = batches.dataset(0, 2).as_numpy_iterator()
    assert inputs["source"].tolist() == [[7, 0, 0, 0]]
    assert inputs["target"].tolist() == [[START, 8, 9, 0]]
    assert labels.tolist() == [[8, 9, END, 0]]


def test_batches_come_fast():
    batches = PairBatches(*corpus(20_000), batch_size=64, seed=0)
    list(batches.dataset(0, 5))
    began = time.perf_counter()
    taken = sum(1 for _ in batches.dataset(0, 300))
    assert taken / (time.perf_counter() - began) > 150


@refuses(
    (([], [], 1, 0), "no pairs to make batches of"),
    (([[4]], [[4], [5]], 1, 0), "one target per source, got 1 sources and 2 targets"),
    (([[4], []], [[4], [5]], 1, 0), "the source of pair 1 is empty"),
    (([[4], [5]], [[], [5]], 1, 0), "the target of pair 0 is empty"),
    (([[4]], [[4]], 1, 0, 0), "bucket_width=0 must be at least 1"),
)
def test_bad_arguments_are_refused(arguments):
    PairBatches(*arguments)


@refuses((([], 1, 0), "no lines to make batches of"), (([[4], []], 1, 0), "line 1 is empty"))
def test_bad_lines_are_refused(arguments):
    LineBatches(*arguments)


def test_lines_start_and_labels_end():
    lines = corpus(50)[0]
    batches = LineBatches(lines, batch_size=8, seed=2, bucket_width=4)
    seen = []
    for step in range(batches.steps_per_pass):
        inputs, labels = batches.at(step)
        tokens = inputs["tokens"]
        assert tokens.shape == labels.shape
        assert tokens.dtype == labels.dtype == np.int32
        assert ((tokens == PAD) == (labels == PAD)).all()
        assert tokens.shape[1] % 4 == 0
        longest = max(len(lines[row]) for row in batches.rows(step))
        assert tokens.shape[1] - longest - 1 < 4
        for row, told, follows in zip(batches.rows(step), tokens, labels, strict=True):
            seen.append(int(row))
            size = len(lines[row]) + 1
            assert told[:size].tolist() == [START, *lines[row]]
            assert follows[:size].tolist() == [*lines[row], END]
            assert not told[size:].any()
    assert sorted(seen) == list(range(50))


def test_examples_keep_their_numbers_in_the_corpus():
    batches = LineBatches(corpus(21)[0], 4, seed=5, numbers=range(101, 122))
    assert batches.examples(3) == sorted(101 + batches.rows(3))


@pytest.mark.full
def test_importing_data_imports_neither_tensorflow_nor_babel():
    script = (
        "import os, sys; os.environ['KERAS_BACKEND'] = 'jax'; import attention_zoo.data as d;"
        "d.train_tokenizer('word', ['a b']).encode(['a']);"
        "d.PairBatches([[4]], [[5]], 1, 0).rows(3);"
        "print([m for m in ('tensorflow', 'babel', 'tensorflow_datasets') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
