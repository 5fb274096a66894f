from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from attention_zoo.data import TextPairs, train_tokenizer
from attention_zoo.tasks import text_inputs
from attention_zoo.tasks.text_pairs import Sides, TextPairTask

LENGTH, BYTES = 50, 32 + 8  # size of a Python integer and its list entry


class Numbers(TextPairTask):
    """Tokenizer for texts that are ids separated by spaces."""

    from_recipe = loss = predict = evaluate = None  # not tested here
    max_source_length = LENGTH
    max_target_length = 8

    def encode_pairs(self, examples: TextPairs) -> Sides:
        sides = (examples.sources, examples.targets)
        sources, targets = ([[int(i) for i in text.split()] for text in side] for side in sides)
        return sources, targets


def corpus(size: int) -> TextPairs:
    """Return pairs; pair n has ids of about 1,000 n, every fifth pair is too long."""
    lengths = [LENGTH + (n % 5 == 0) for n in range(1, size + 1)]
    sources = [
        " ".join(str(1000 * n + i) for i in range(length)) for n, length in enumerate(lengths, 1)
    ]
    return TextPairs(sources, [text.partition(" ")[0] for text in sources], "a test")


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 2500])
def test_pairs_are_encoded_in_parts_and_keep_their_numbers(size: int) -> None:
    examples = corpus(size)
    batches = Numbers().make_batches(examples, batch_size=16, seed=0)
    valid_numbers = [n for n in range(1, size + 1) if n % 5]
    assert len(batches) == len(valid_numbers)
    for row in {0, len(valid_numbers) // 2, len(valid_numbers) - 1}:
        inputs, labels = batches.make_batch(np.array([row]))
        first = 1000 * valid_numbers[row]
        assert inputs["source"][0, :LENGTH].tolist() == list(range(first, first + LENGTH))
        assert labels[0, :2].tolist() == [first, 3]
    numbers = [
        n for step in range(batches.steps_per_epoch) for n in batches.get_example_numbers(step)
    ]
    assert sorted(numbers) == valid_numbers
    assert Numbers().filter_by_length(examples).targets == [str(1000 * n) for n in valid_numbers]


def test_ids_of_a_large_corpus_are_stored_as_arrays() -> None:
    examples = corpus(8 * text_inputs.PART)
    tracemalloc.start()
    Numbers().make_batches(examples, batch_size=16, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(examples) * LENGTH * BYTES / 2


def test_text_that_cannot_be_encoded_is_located() -> None:
    class Words(Numbers):
        def encode_pairs(self, examples: TextPairs) -> Sides:
            words = train_tokenizer("word", ["a"])
            return words.encode(examples.sources), words.encode(examples.targets)

    texts = ["a"] * 1100
    examples = TextPairs([*texts[:1050], "a\ud800", *texts[1051:]], texts, "a test")
    with pytest.raises(ValueError, match=r"^a test, from pair 1025 on: text 26 is not valid"):
        Words().make_batches(examples, batch_size=16, seed=0)
