"""Writes cabinet.md and its pictures: every mechanism on one pair of sentences.

python docs/make_cabinet.py            # the page and all pictures, some minutes
python docs/make_cabinet.py --only text
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import attention_zoo as az
from attention_zoo import layers

HERE = Path(__file__).parent
PAGE, PICTURES = HERE / "cabinet.md", HERE / "cabinet"

SOURCE = ["the", "red", "hat", "of", "the", "woman"]
TARGET = ["le", "chapeau", "rouge", "de", "la", "femme"]
LINKS = (0, 2, 1, 3, 4, 5)
"""Which word of the source each word of the target translates."""
WIDTH = 16
NARROW: dict[str, dict[str, int]] = {
    "top_k": {"k": 2},
    "local_monotonic": {"window": 1},
    "local_predictive": {"window": 2},
}
"""Options of alignments whose defaults see more than six words."""

Picture = tuple[Any, list[str], list[str]]


class Entry(NamedTuple):
    """One mechanism: its class, how it is drawn, and when one would take it."""

    cls: type
    draw: Callable[[], Picture]
    when: str


def pair() -> tuple[np.ndarray, np.ndarray]:
    """Queries and values `(1, 6, 16)`.

    Words that translate each other share their vector but for some noise; "the" stands twice.
    """
    rng = np.random.default_rng(4)
    meaning = {word: rng.normal(size=WIDTH) for word in dict.fromkeys(SOURCE)}
    value = [meaning[word] for word in SOURCE]
    query = [value[link] + 0.4 * rng.normal(size=WIDTH) for link in LINKS]
    return np.array([query], "float32"), np.array([value], "float32")


def goal() -> np.ndarray:
    """The links, with a fifth of the weight left to all places."""
    return 0.8 * np.eye(len(SOURCE), dtype="float32")[list(LINKS)] + 0.2 / len(SOURCE)


def fit(layer: Any, look: Callable[[], Any], goal: np.ndarray, steps: int = 200) -> None:
    """Trains the layer until its weights `look()` are near the goal, as far as it can."""
    look()
    if not layer.trainable_variables:
        return
    optimizer = keras.optimizers.Adam(0.03)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            weights = look()  # the loss is least at the goal for weights of any sum
            loss = ops.mean(ops.sum(weights - goal * ops.log(weights + 1e-3), axis=-1))
        gradients = tape.gradient(loss, layer.trainable_variables)
        pairs = zip(gradients, layer.trainable_variables, strict=True)
        optimizer.apply_gradients([(g, v) for g, v in pairs if g is not None])

    for _ in range(steps):
        step()


def attend(layer: Any, score_of: Any = None) -> Picture:
    """An attention layer fitted to the links, as it looks at inference.

    Scores that another layer has learned stay as they are, unless the alignment has to learn too.
    """
    query, value = pair()

    def look(training: bool = True) -> Any:
        return layer(query, value, return_attention_scores=True, training=training)[1]

    look()
    if score_of is not None:
        attend(score_of)
        layer.score.set_weights(score_of.score.get_weights())
    if score_of is None or layer.alignment.trainable_variables:
        fit(layer, look, goal())
    return look(training=False)[0], TARGET, SOURCE


def by_score(name: str) -> Callable[[], Picture]:
    """A score, aligned by softmax."""

    def draw() -> Picture:
        score = layers.LocationScore(len(SOURCE)) if name == "location" else name
        return attend(layers.Attention(score))

    return draw


def by_alignment(name: str) -> Callable[[], Picture]:
    """An alignment of general scores, which a softmax has trained first."""

    def draw() -> Picture:
        alignment = layers.ALIGNMENTS.get(name)(**NARROW.get(name, {}))
        return attend(layers.Attention("general", alignment), layers.Attention("general"))

    return draw


def by_layer(make: Callable[[], Any]) -> Callable[[], Picture]:
    return lambda: attend(make())


def of_heads() -> Picture:
    weights, _, _ = attend(layers.MultiHeadAttention(2, 8))
    rows = [f"{word} ({head + 1})" for head in range(2) for word in TARGET]
    return ops.reshape(weights, (-1, len(SOURCE))), rows, SOURCE


def of_self_attention() -> Picture:
    _, value = pair()
    layer = layers.SelfAttention(score="scaled_dot")
    return layer(value, return_attention_scores=True)[1][0], SOURCE, SOURCE


def of_neighbours() -> Picture:
    """Windows of one word on each side; the first word looks at all."""
    _, value = pair()
    layer = layers.WindowedAttention(1, WIDTH, window=1, global_places=1)
    layer(value)
    layer.attention.key_projection.assign(layer.attention.query_projection)
    return layer(value, return_attention_scores=True)[1][0, 0], SOURCE, SOURCE


def of_pooling() -> Picture:
    _, value = pair()
    layer = layers.AttentionPooling(units=8)

    def look() -> Any:
        return layer(value, return_attention_scores=True)[1]

    fit(layer, look, np.eye(6, dtype="float32")[[2]], steps=30)
    return look(), ["what is it"], SOURCE


def of_hops() -> Picture:
    _, value = pair()
    layer = layers.StructuredSelfAttention(units=8, hops=3)

    def look() -> Any:
        return layer(value, return_attention_scores=True)[1]

    fit(layer, look, np.eye(6, dtype="float32")[[1, 2, 5]], steps=60)
    return look()[0], ["hop 1", "hop 2", "hop 3"], SOURCE


def of_levels() -> Picture:
    """Two phrases of three words: the weight of a word times that of its phrase."""
    _, value = pair()
    poolings = [layers.AttentionPooling(units=8) for _ in range(2)]
    layer = layers.HierarchicalAttention([(None, pooling) for pooling in poolings])

    def look() -> Any:
        _, (of_words, of_phrases) = layer(
            value.reshape(1, 2, 3, WIDTH), return_attention_scores=True
        )
        return ops.reshape(of_words * of_phrases[..., None], (1, 6))

    fit(layer, look, np.array([[0, 0, 0.7, 0, 0, 0.3]], "float32"), steps=60)
    return look(), ["of words in phrases"], SOURCE


def of_co_attention() -> Picture:
    query, value = pair()
    layer = layers.CoAttention()

    def look() -> Any:
        return layer(query, value, return_attention_scores=True)[1]

    fit(layer, look, goal())
    return look()[0], TARGET, SOURCE


def of_stack() -> Picture:
    query, value = pair()
    outputs = layers.StackedCrossAttention()(query, value, return_attention_scores=True)
    return outputs[-1][0], TARGET, SOURCE


def of_feature_map() -> Picture:
    """The matrix that both maps are made of."""
    query, value = pair()
    outputs = layers.AttentionFeatureMap(len(SOURCE))(query, value, return_attention_scores=True)
    return outputs[-1][0], TARGET, SOURCE


def of_windows() -> Picture:
    """What each word of the source counts in every window of three: its mean over the target."""
    query, value = pair()
    outputs = layers.AttentionWeightedPooling(3)(query, value, return_attention_scores=True)
    place, first = np.arange(len(SOURCE)), np.arange(len(SOURCE) - 2)[:, None]
    weights = ops.where((place >= first) & (place < first + 3), ops.mean(outputs[-1][0], axis=0), 0)
    return weights, [f"window {number + 1}" for number in range(len(first))], SOURCE


def of_grid() -> Picture:
    """The source's words as a grid of two rows of three."""
    query, value = pair()
    layer = layers.VisualAttention(8)

    def look() -> Any:
        grid = value.reshape(1, 2, 3, WIDTH)
        weights = layer(query, grid, return_attention_scores=True)[1]
        return ops.reshape(weights, (1, 6, 6))

    fit(layer, look, goal())
    return look()[0], TARGET, SOURCE


def by_position(name: str) -> Callable[[], Picture]:
    """Where the first of eight heads looks when all words are the same."""

    def draw() -> Picture:
        keras.utils.set_random_seed(1)
        layer = layers.MultiHeadAttention(8, WIDTH, positions=name, use_bias=False)
        same = np.ones((1, len(SOURCE), WIDTH), "float32")
        layer(same, same)
        layer.key_projection.assign(3 * layer.query_projection)
        for variable in layer.positions.trainable_variables:
            variable.assign(np.random.default_rng(0).normal(size=variable.shape))
        weights = layer(same, same, return_attention_scores=True)[1]
        return weights[0, 0], SOURCE, SOURCE

    return draw


def by_vectors(make: Callable[[], Any]) -> Callable[[], Picture]:
    """How alike the vectors of two places are."""

    def draw() -> Picture:
        keras.utils.set_random_seed(1)
        layer = make()
        words = np.zeros((1, len(SOURCE), WIDTH), "float32")
        layer(words)
        for variable in layer.trainable_variables:
            variable.assign(np.random.default_rng(0).normal(size=variable.shape))
        vectors = layer(words)
        weights = layers.DotProductAttention()(vectors, vectors, return_attention_scores=True)[1]
        return weights[0], SOURCE, SOURCE

    return draw


SCORES = {
    "dot": "Query and key live in one space already, and speed matters most.",
    "scaled_dot": "As dot, in spaces of more than some dozen numbers; what Transformers use.",
    "general": "Query and key come from different networks. A good first choice in a decoder.",
    "additive": "Small data, or widths that differ; slower, and often the best of them there.",
    "concat": "To follow Luong's third score to the letter; additive says the same for less.",
    "bilinear": "As general, with a bias and an activation that bounds the scores.",
    "cosine": "Lengths of vectors should not matter, as in retrieval and few-shot matching.",
    "euclidean": "Matching two sentences word by word, where near should mean alike.",
    "trilinear": "Reading comprehension: what either side holds alone matters as well.",
    "location": "The place says it all and sources have a greatest length; cheap, content-blind.",
    "coverage": "Long outputs that must not repeat themselves: summaries.",
    "location_sensitive": "Speech: long inputs, read in order, alike from one place to the next.",
}
ALIGNMENTS = {
    "softmax": "The default.",
    "sparsemax": "Most places deserve exactly no weight, and readers of the weights say so.",
    "entmax": "Between softmax and sparsemax; with a learned alpha each layer finds its own.",
    "top_k": "At most k places may count, whatever the scores.",
    "sigmoid": "Places do not compete: several may count in full, or none.",
    "hard": "Inference that must name one place; scores get no gradient from it.",
    "gumbel": "One place at a time, trained by ordinary gradients with little bias.",
    "reinforce": "One place at a time, trained without bias by reward; noisier than gumbel.",
    "local_monotonic": "Source and target run side by side at one pace, and sources are long.",
    "local_predictive": "Sources are long, and each look needs a neighbourhood that it can guess.",
    "monotonic": "Streams: the output must not wait for the end of the source.",
    "mocha": "Streams whose outputs need some words of context behind the place.",
}
POSITIONS = {
    "rotary": "Decoders and encoders that should read longer texts than they were trained on.",
    "alibi": "As rotary, with less to compute and nothing to learn; favours what is near.",
    "t5": "Encoders and decoders of Transformers; learns how much near and far matter.",
    "shaw": "The first of the relative ones; small windows of distance that differ in kind.",
}
STRUCTURES = [
    Entry(layers.MultiHeadAttention, of_heads, "Several relations at once; Transformers."),
    Entry(layers.SelfAttention, of_self_attention, "Words that read their own sentence."),
    Entry(layers.WindowedAttention, of_neighbours, "Sequences of many thousands of places."),
    Entry(layers.AttentionPooling, of_pooling, "One vector of a text that says what matters."),
    Entry(
        layers.StructuredSelfAttention, of_hops, "A text by several vectors, one for each aspect."
    ),
    Entry(layers.HierarchicalAttention, of_levels, "Documents: words in sentences in texts."),
    Entry(layers.CoAttention, of_co_attention, "A text and a question that read each other."),
    Entry(
        layers.AttentionFeatureMap,
        of_feature_map,
        "Sentence pairs read by a convolution: what is alike becomes one more channel.",
    ),
    Entry(
        layers.AttentionWeightedPooling,
        of_windows,
        "Sentence pairs after a convolution: what is alike counts more in the pooling.",
    ),
    Entry(layers.StackedCrossAttention, of_stack, "How well an image's regions fit a sentence."),
    Entry(layers.VisualAttention, of_grid, "Captions: where in the image the next word is."),
    Entry(
        layers.MixtureWindowAttention,
        by_layer(lambda: layers.MixtureWindowAttention(2)),
        "Handwriting and speech synthesis: a window that only moves on.",
    ),
    Entry(
        layers.SinusoidalPositions,
        by_vectors(layers.SinusoidalPositions),
        "Absolute places, of any length, with nothing to learn.",
    ),
    Entry(
        layers.LearnedPositions,
        by_vectors(lambda: layers.LearnedPositions(len(SOURCE))),
        "Absolute places up to a fixed length.",
    ),
]


def sections() -> dict[str, dict[str, Entry]]:
    """Title to name to entry."""
    return {
        "Scores": {
            name: Entry(layers.SCORES.get(name), by_score(name), when)
            for name, when in SCORES.items()
        },
        "Alignments": {
            name: Entry(layers.ALIGNMENTS.get(name), by_alignment(name), when)
            for name, when in ALIGNMENTS.items()
        },
        "Relative positions": {
            name: Entry(layers.POSITIONS.get(name), by_position(name), when)
            for name, when in POSITIONS.items()
        },
        "Structures": {entry.cls.__name__: entry for entry in STRUCTURES},
    }


INTRODUCTION = {
    "Scores": "How alike are query and key; each with a softmax behind it.",
    "Alignments": "Where to look, given scores; each behind the general score, as at inference.",
    "Relative positions": "Where one of eight heads looks when all words are alike.",
    "Structures": "Layers made of these parts, and at the end absolute positions: how alike the "
    "vectors of two places are.",
}


def section_of(doc: str, name: str) -> str:
    """A section of a docstring as one line."""
    found = re.search(rf"^{name}:\n((?:    .*\n|\n)+)", doc, re.M)
    return " ".join(found.group(1).split()) if found else ""


def formula_of(doc: str) -> str:
    """What stands between the first line and the arguments and has a formula in it."""
    head = re.split(r"^(?:Args|Call arguments):$", doc, maxsplit=1, flags=re.M)[0]
    paragraphs = [" ".join(p.split()) for p in head.split("\n\n")[1:]]
    return next(paragraph for paragraph in paragraphs if "`" in paragraph)


def page() -> str:
    """The text of cabinet.md."""
    lines = [
        "# The cabinet",
        "",
        'Every mechanism on one pair: "the red hat of the woman" and',
        '"le chapeau rouge de la femme". Rows ask, columns are looked at, dark is weight.',
        'Words that translate each other have like vectors; "the" stands twice, so that content',
        "alone cannot tell which. Layers with weights were trained on this pair for a moment, as",
        "far as they can follow it; those of one sentence look at the first. Written by",
        "`docs/make_cabinet.py`; formulas and costs are the docstrings'.",
        "",
    ]
    for title, entries in sections().items():
        lines += [f"## {title}", "", INTRODUCTION[title], ""]
        for name, entry in entries.items():
            doc = inspect.cleandoc(entry.cls.__doc__ or "") + "\n"
            cls = entry.cls.__name__
            lines += [f"### {name}", "", f"![{name}](cabinet/{name}.png)", ""]
            lines += [f"`layers.{cls}`. {doc.splitlines()[0]} {formula_of(doc)}", ""]
            lines += [f"*Cost:* {section_of(doc, 'Cost')}", "", f"*When:* {entry.when}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of mechanisms, or `text` for no picture")
    options = parser.parse_args()
    PAGE.write_text(page(), "utf-8")
    PICTURES.mkdir(exist_ok=True)
    for entries in sections().values():
        for name, entry in entries.items():
            if not options.only or name in options.only:
                keras.utils.set_random_seed(0)
                weights, rows, columns = entry.draw()
                array = ops.convert_to_numpy(weights)
                az.inspection.plot_alignment(array, rows, columns, PICTURES / f"{name}.png")
                print(name, flush=True)


if __name__ == "__main__":
    main()
