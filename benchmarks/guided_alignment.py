"""Guided alignment of RNNsearch on `dates`: attention that is trained with word alignments.

    python benchmarks/guided_alignment.py --eflomal-python .venv-eflomal/bin/python \
        [--size 1000] [--steps 1200] [--weight 1.0] [--dry-run]

Each target token of a training pair is linked to source tokens, and `losses.GuidedAlignment` of
the attention weights is added to the loss (Chen et al. 2016, arXiv 1607.01628). The links are the
gold links of the corpus (`data.generate_aligned_dates`) or those of the word aligner eflomal, which
needs no gold links. Model, data, batches, steps and learning rate are those of the recipe
rnnsearch_small.dates_en_fr; the optimizer is Adam, and the weights are those of the last step.
Scores are those of word_alignment.py, on test pairs, whose links are not used in training.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray
from side_by_side import write_section
from word_alignment import Links, Pairs, align, align_with_eflomal, score, split_words

import attention_zoo as az
from attention_zoo import zoo
from attention_zoo.data import AlignedPair, PairBatches
from attention_zoo.losses import GuidedAlignment, SequenceCrossEntropy
from attention_zoo.models import RNNSearch

NAME = "rnnsearch_small.dates_en_fr"


class GuidedRNNSearch(RNNSearch):
    """RNNsearch whose attention weights are trained with links of tokens.

    Args:
        weight: weight of the guided alignment in the loss.

    Call arguments:
        inputs: as `RNNSearch`, in training also "links", `(B, T, S)`, 1 where target token t is
            linked to source token s.
    """

    readout_fields = (*RNNSearch.readout_fields, "weights")

    def __init__(self, *args: Any, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.weight, self.guided_alignment = weight, GuidedAlignment()

    def call(
        self, inputs: dict[str, Any], training: bool | None = None, project: bool = True
    ) -> Any:
        self._links = inputs.get("links")
        return super().call(inputs, training, project)

    def add_auxiliary_losses(
        self, record: dict[str, Any], state: Any, target: Any, projection: Any
    ) -> None:
        self.add_loss(self.weight * self.guided_alignment(self._links, record["weights"][0]))


class AlignedBatches(PairBatches):
    """Batches of pairs with links of tokens: the input "links", `(B, T, S)`.

    Args:
        links: links (target position, source position) of the tokens of each pair.
    """

    def __init__(
        self, *columns: Any, links: Sequence[Iterable[tuple[int, int]]], **options: Any
    ) -> None:
        self._links = links
        super().__init__(*columns, **options)

    def make_batch(self, rows: NDArray[Any]) -> Any:
        inputs, labels = super().make_batch(rows)
        links = np.zeros((*labels.shape, inputs["source"].shape[1]), "float32")
        for row, number in enumerate(rows):
            for position in self._links[number]:
                links[(row, *position)] = 1
        return {**inputs, "links": links}, labels


def link_tokens(
    pair: AlignedPair, links: Iterable[tuple[int, int]], tokenizers: Sequence[Any]
) -> set[tuple[int, int]]:
    """Return the links of the tokens of linked words.

    Words with equal numbers of tokens, such as the digits of a year, are linked token by token;
    otherwise each token is linked to all tokens of the other word.
    """
    sources, targets = (
        group_tokens(az.inspection.find_word_ids(tokenizer.offsets(text), words))
        for tokenizer, text, words in (
            (tokenizers[0], pair.source, pair.source_words),
            (tokenizers[1], pair.target, pair.target_words),
        )
    )
    token_links = set()
    for t, s in links:
        rows, columns = targets.get(t, []), sources.get(s, [])
        if len(rows) == len(columns):
            token_links |= {*zip(rows, columns, strict=True)}
        else:
            token_links |= {(row, column) for row in rows for column in columns}
    return token_links


def group_tokens(word_ids: Sequence[int | None]) -> dict[int, list[int]]:
    """Return the positions of the tokens of each word."""
    positions: dict[int, list[int]] = {}
    for position, word in enumerate(word_ids):
        if word is not None:
            positions.setdefault(word, []).append(position)
    return positions


def train(recipe: Any, pairs: Pairs, links: Links, weight: float) -> Any:
    """Return a translation task that is trained with links of the words of its pairs."""
    examples = az.data.TextPairs(
        [pair.source for pair in pairs], [pair.target for pair in pairs], recipe.data.corpus
    )
    keras.utils.set_random_seed(recipe.seed)
    task = az.tasks.Translation.from_recipe(recipe, examples)
    tokenizers = task.source_tokenizer, task.target_tokenizer
    model = GuidedRNNSearch(**task.model.settings, weight=weight)
    batches = AlignedBatches(
        tokenizers[0].encode(examples.sources),
        tokenizers[1].encode(examples.targets),
        recipe.training.batch_size,
        recipe.seed,
        links=[
            link_tokens(pair, word_links, tokenizers)
            for pair, word_links in zip(pairs, links, strict=True)
        ],
    )
    steps = recipe.training.steps
    rate = keras.optimizers.schedules.CosineDecay(
        0.0,
        steps - recipe.training.warmup_steps,
        warmup_target=recipe.training.learning_rate,
        warmup_steps=recipe.training.warmup_steps,
    )
    optimizer = keras.optimizers.Adam(rate, global_clipnorm=recipe.training.clip_norm)
    model.compile(optimizer, SequenceCrossEntropy())
    model.fit(batches.dataset(0, steps), shuffle=False, verbose=2)
    task.model.set_weights(model.get_weights())
    return task


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--eflomal-python", help="Python interpreter with eflomal")
    parser.add_argument("--size", type=int, default=1000, help="number of test pairs")
    parser.add_argument("--steps", type=int, help="default: those of the recipe")
    parser.add_argument(
        "--weight", type=float, default=1.0, help="weight of the guided alignment in the loss"
    )
    parser.add_argument("--dry-run", action="store_true", help="print, but do not write results.md")
    options = parser.parse_args()
    changes = [f"training.steps={options.steps}"] if options.steps else []
    recipe = az.training.read_recipe(zoo.find_recipe(NAME), changes)
    data = recipe.data
    names = {
        name: getattr(data, name) for name in ("source", "target", "min_phrases", "max_phrases")
    }
    test, pairs = (
        az.data.generate_aligned_dates(size, split=split, seed=data.seed, **names)
        for split, size in (("test", options.size), ("train", data.size))
    )
    guides: dict[str, tuple[Links, float]] = {
        "none": ([set() for _ in pairs], 0.0),
        "gold links": ([{*pair.sure} for pair in pairs], options.weight),
    }
    if options.eflomal_python:
        words = [
            (
                split_words(pair.source, pair.source_words),
                split_words(pair.target, pair.target_words),
            )
            for pair in pairs
        ]
        guides["eflomal"] = align_with_eflomal(words, options.eflomal_python), options.weight
    lines = [
        "| links of the training pairs | AER, linked words | precision | recall | AER, values"
        " | AER, all words | exact match, % |",
        "|---|---|---|---|---|---|---|",
    ]
    examples = recipe.data.read("test")
    for name, (links, weight) in guides.items():
        task = train(recipe, pairs, links, weight)
        (alignments,) = align(task, test).values()
        cells = " | ".join(f"{value:.3f}" for value in score(test, alignments))
        match = task.evaluate(examples)["exact_match"]
        lines.append(f"| {name} | {cells} | {match:.1f} |")
        print(lines[-1], flush=True)
    lines += [
        "",
        f"{NAME}, {recipe.training.steps:,} steps; {len(test):,} test pairs. The loss is that of"
        f" the tokens and {options.weight:g} times `losses.GuidedAlignment`. One seed.",
    ]
    write_section("Guided alignment, en-fr", lines, options.dry_run)


if __name__ == "__main__":
    main()
