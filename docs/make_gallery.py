"""Write gallery.md and its pictures: every mechanism on one pair of sentences.

python docs/make_gallery.py            # the page and all pictures, some minutes
python docs/make_gallery.py --only text
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
PAGE, PICTURES = HERE / "gallery.md", HERE / "gallery"

SOURCE = ["the", "red", "hat", "of", "the", "woman"]
TARGET = ["le", "chapeau", "rouge", "de", "la", "femme"]
LINKS = (0, 2, 1, 3, 4, 5)
"""For each target word, the index of the source word that it translates."""
WIDTH = 16
NARROW: dict[str, dict[str, int]] = {
    "top_k": {"k": 2},
    "local_monotonic": {"window": 1},
    "local_predictive": {"window": 2},
}
"""Options of alignments whose default window exceeds six words."""

Picture = tuple[Any, list[str], list[str]]


class Entry(NamedTuple):
    """A mechanism: its class, a function that computes its picture, and when to use it."""

    cls: type
    draw: Callable[[], Picture]
    when: str


def pair() -> tuple[np.ndarray, np.ndarray]:
    """Return queries and values `(1, 6, 16)`.

    Words that translate each other have the same vector plus noise; "the" occurs twice.
    """
    rng = np.random.default_rng(4)
    meaning = {word: rng.normal(size=WIDTH) for word in dict.fromkeys(SOURCE)}
    value = [meaning[word] for word in SOURCE]
    query = [value[link] + 0.4 * rng.normal(size=WIDTH) for link in LINKS]
    return np.array([query], "float32"), np.array([value], "float32")


def goal() -> np.ndarray:
    """Return the target weights: 0.8 on the linked word, 0.2 spread over all positions."""
    return 0.8 * np.eye(len(SOURCE), dtype="float32")[list(LINKS)] + 0.2 / len(SOURCE)


def fit(layer: Any, weights_of: Callable[[], Any], goal: np.ndarray, steps: int = 200) -> None:
    """Train the layer so that its attention weights `weights_of()` approach the goal."""
    weights_of()
    if not layer.trainable_variables:
        return
    optimizer = keras.optimizers.Adam(0.03)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            weights = weights_of()  # the loss is least at the goal for weights of any sum
            loss = ops.mean(ops.sum(weights - goal * ops.log(weights + 1e-3), axis=-1))
        gradients = tape.gradient(loss, layer.trainable_variables)
        pairs = zip(gradients, layer.trainable_variables, strict=True)
        optimizer.apply_gradients([(g, v) for g, v in pairs if g is not None])

    for _ in range(steps):
        step()


def attend(layer: Any, score_of: Any = None) -> Picture:
    """Fit an attention layer to the links and return its weights in inference.

    The weights of `score_of`'s score are copied and kept, unless the alignment is trained, too.
    """
    query, value = pair()

    def weights_of(training: bool = True) -> Any:
        return layer(query, value, return_attention_scores=True, training=training)[1]

    weights_of()
    if score_of is not None:
        attend(score_of)
        layer.score.set_weights(score_of.score.get_weights())
    if score_of is None or layer.alignment.trainable_variables:
        fit(layer, weights_of, goal())
    return weights_of(training=False)[0], TARGET, SOURCE


def by_score(name: str) -> Callable[[], Picture]:
    """Return a function that draws a score with a softmax alignment."""

    def draw() -> Picture:
        score = layers.LocationScore(len(SOURCE)) if name == "location" else name
        return attend(layers.Attention(score))

    return draw


def by_alignment(name: str) -> Callable[[], Picture]:
    """Return a function that draws an alignment of general scores trained with a softmax."""

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
    """Windows of one word on each side; the first word attends to all."""
    _, value = pair()
    layer = layers.WindowedAttention(1, WIDTH, window=1, num_global_tokens=1)
    layer(value)
    layer.attention.key_projection.assign(layer.attention.query_projection)
    return layer(value, return_attention_scores=True)[1][0, 0], SOURCE, SOURCE


def of_pooling() -> Picture:
    _, value = pair()
    layer = layers.AttentionPooling(units=8)

    def weights_of() -> Any:
        return layer(value, return_attention_scores=True)[1]

    fit(layer, weights_of, np.eye(6, dtype="float32")[[2]], steps=30)
    return weights_of(), ["what is it"], SOURCE


def of_hops() -> Picture:
    _, value = pair()
    layer = layers.StructuredSelfAttention(units=8, hops=3)

    def weights_of() -> Any:
        return layer(value, return_attention_scores=True)[1]

    fit(layer, weights_of, np.eye(6, dtype="float32")[[1, 2, 5]], steps=60)
    return weights_of()[0], ["hop 1", "hop 2", "hop 3"], SOURCE


def of_levels() -> Picture:
    """Two phrases of three words: the weight of a word times that of its phrase."""
    _, value = pair()
    poolings = [layers.AttentionPooling(units=8) for _ in range(2)]
    layer = layers.HierarchicalAttention([(None, pooling) for pooling in poolings])

    def weights_of() -> Any:
        _, (of_words, of_phrases) = layer(
            value.reshape(1, 2, 3, WIDTH), return_attention_scores=True
        )
        return ops.reshape(of_words * of_phrases[..., None], (1, 6))

    fit(layer, weights_of, np.array([[0, 0, 0.7, 0, 0, 0.3]], "float32"), steps=60)
    return weights_of(), ["of words in phrases"], SOURCE


def of_co_attention() -> Picture:
    query, value = pair()
    layer = layers.CoAttention()

    def weights_of() -> Any:
        return layer(query, value, return_attention_scores=True)[1]

    fit(layer, weights_of, goal())
    return weights_of()[0], TARGET, SOURCE


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

    def weights_of() -> Any:
        grid = value.reshape(1, 2, 3, WIDTH)
        weights = layer(query, grid, return_attention_scores=True)[1]
        return ops.reshape(weights, (1, 6, 6))

    fit(layer, weights_of, goal())
    return weights_of()[0], TARGET, SOURCE


def by_position(name: str) -> Callable[[], Picture]:
    """Return a function that draws the weights of one of eight heads on equal words."""

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
    """Return a function that draws the similarity of the vectors of two positions."""

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
    "dot": "Query and key share a vector space, and speed matters most.",
    "scaled_dot": "As dot, for more than a few dozen dimensions; the score of Transformers.",
    "general": "Query and key come from different networks. A good default in a decoder.",
    "additive": "Small data, or query and key of different widths; slower, often more accurate.",
    "concat": "To reproduce Luong's concat score; additive computes the same at a lower cost.",
    "bilinear": "As general, with a bias and a bounded activation.",
    "cosine": "The norms of vectors should not matter, as in retrieval and few-shot matching.",
    "euclidean": "Word-by-word matching of two sentences by distance.",
    "trilinear": "Reading comprehension: query and key also contribute to the score separately.",
    "location": "Alignment depends on positions only, and sources have a maximum length; cheap.",
    "coverage": "Long outputs without repetition, such as summaries.",
    "location_sensitive": "Speech: long inputs in monotonic order with similar adjacent frames.",
}
ALIGNMENTS = {
    "softmax": "The default.",
    "sparsemax": "Sparse weights: most positions get exactly 0, which is easier to interpret.",
    "entmax": "Between softmax and sparsemax; alpha can be learned for each layer.",
    "top_k": "At most k positions are attended, whatever the scores.",
    "sigmoid": "Positions are independent: any number of them can have a weight near 1.",
    "hard": "Inference that selects one position; scores get no gradient.",
    "gumbel": "One sampled position, trained by backpropagation with a small bias.",
    "reinforce": "One sampled position, trained without bias; higher variance than gumbel.",
    "local_monotonic": "Long sources whose alignment with the target is near the diagonal.",
    "local_predictive": "Long sources, and each step attends to a window at a predicted position.",
    "monotonic": "Streaming: the output does not wait for the end of the source.",
    "mocha": "Streaming with a window of context before the selected position.",
}
POSITIONS = {
    "rotary": "Encoders and decoders; texts longer than those in training.",
    "alibi": "As rotary, cheaper and without weights; prefers near positions.",
    "t5": "Transformer encoders and decoders; learns a bias per bucket of distances.",
    "shaw": "The original relative positions: learned vectors for small distances.",
}
STRUCTURES = [
    Entry(layers.MultiHeadAttention, of_heads, "Several relations in parallel; Transformers."),
    Entry(layers.SelfAttention, of_self_attention, "Words that attend to their own sentence."),
    Entry(layers.WindowedAttention, of_neighbours, "Sequences of many thousands of positions."),
    Entry(layers.AttentionPooling, of_pooling, "One vector for a text, weighted by relevance."),
    Entry(
        layers.StructuredSelfAttention, of_hops, "Several vectors for a text, one for each aspect."
    ),
    Entry(layers.HierarchicalAttention, of_levels, "Documents: words, sentences, texts."),
    Entry(layers.CoAttention, of_co_attention, "A text and a question that attend to each other."),
    Entry(
        layers.AttentionFeatureMap,
        of_feature_map,
        "Sentence pairs, before a convolution: similarities become an additional channel.",
    ),
    Entry(
        layers.AttentionWeightedPooling,
        of_windows,
        "Sentence pairs, after a convolution: similar words get more weight in pooling.",
    ),
    Entry(layers.StackedCrossAttention, of_stack, "How well image regions match a sentence."),
    Entry(layers.VisualAttention, of_grid, "Captioning: the image region of the next word."),
    Entry(
        layers.MixtureWindowAttention,
        by_layer(lambda: layers.MixtureWindowAttention(2)),
        "Handwriting and speech synthesis: a window that only moves forward.",
    ),
    Entry(
        layers.SinusoidalPositions,
        by_vectors(layers.SinusoidalPositions),
        "Absolute positions of any length, without weights.",
    ),
    Entry(
        layers.LearnedPositions,
        by_vectors(lambda: layers.LearnedPositions(len(SOURCE))),
        "Absolute positions up to a maximum length.",
    ),
]


def sections() -> dict[str, dict[str, Entry]]:
    """Return the entries by section title and name."""
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
    "Scores": "Similarity of query and key. The pictures use a softmax alignment.",
    "Alignments": "From scores to weights. The pictures use the general score, in inference.",
    "Relative positions": "The weights of one of eight heads when all words are equal.",
    "Structures": "Layers built from scores and alignments, and absolute positions at the end: "
    "the similarity of the vectors of two positions.",
}


def section_of(doc: str, name: str) -> str:
    """Return a section of a docstring as one line."""
    found = re.search(rf"^{name}:\n((?:    .*\n|\n)+)", doc, re.M)
    return " ".join(found.group(1).split()) if found else ""


def formula_of(doc: str) -> str:
    """Return the first paragraph with a formula between the first line and the arguments."""
    head = re.split(r"^(?:Args|Call arguments):$", doc, maxsplit=1, flags=re.M)[0]
    paragraphs = [" ".join(p.split()) for p in head.split("\n\n")[1:]]
    return next(paragraph for paragraph in paragraphs if "`" in paragraph)


def page() -> str:
    """Return the text of gallery.md."""
    lines = [
        "# Attention gallery",
        "",
        'Every mechanism on the same pair of sentences, "the red hat of the woman" and',
        '"le chapeau rouge de la femme". Rows are queries, columns are source words, dark is a',
        "high weight. Words that translate each other have similar vectors. The word",
        '"the" occurs twice, so content alone does not distinguish the two positions. Layers with',
        "weights were trained briefly on this pair; layers over a single sequence use the first",
        "sentence. The page is generated by `docs/make_gallery.py` from the docstrings.",
        "",
    ]
    for title, entries in sections().items():
        lines += [f"## {title}", "", INTRODUCTION[title], ""]
        for name, entry in entries.items():
            doc = inspect.cleandoc(entry.cls.__doc__ or "") + "\n"
            cls = entry.cls.__name__
            lines += [f"### {name}", "", f"![{name}](gallery/{name}.png)", ""]
            lines += [f"`layers.{cls}`. {doc.splitlines()[0]} {formula_of(doc)}", ""]
            lines += [f"*Cost:* {section_of(doc, 'Cost')}", "", f"*When:* {entry.when}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of mechanisms, or `text` for no pictures")
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
