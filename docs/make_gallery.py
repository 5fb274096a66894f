"""Write gallery.md and its pictures: every mechanism on one pair of sentences.

`make docs` runs it. Scores, alignments and relative positions are found in their registries; the
text comes from the docstrings.

python docs/make_gallery.py                # the page, and the pictures that are missing
python docs/make_gallery.py --redraw       # the page, and all pictures (some minutes)
python docs/make_gallery.py --redraw dot   # the page, and the pictures of some mechanisms
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import attention_zoo as az
from attention_zoo import layers
from attention_zoo.registry import Registry

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
    """A mechanism: its class, and a function that computes its picture."""

    cls: type
    draw: Callable[[], Picture]


Entries = dict[str, Entry]


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
    """Draw the attention matrix from which both maps are computed."""
    query, value = pair()
    outputs = layers.AttentionFeatureMap(len(SOURCE))(query, value, return_attention_scores=True)
    return outputs[-1][0], TARGET, SOURCE


def of_windows() -> Picture:
    """Draw the mean weight over the target of each source word, for each window of three words."""
    query, value = pair()
    outputs = layers.AttentionWeightedPooling(3)(query, value, return_attention_scores=True)
    word, first = np.arange(len(SOURCE)), np.arange(len(SOURCE) - 2)[:, None]
    weights = ops.where((word >= first) & (word < first + 3), ops.mean(outputs[-1][0], axis=0), 0)
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


STRUCTURES: dict[type, Callable[[], Picture]] = {
    layers.MultiHeadAttention: of_heads,
    layers.SelfAttention: of_self_attention,
    layers.WindowedAttention: of_neighbours,
    layers.AttentionPooling: of_pooling,
    layers.StructuredSelfAttention: of_hops,
    layers.HierarchicalAttention: of_levels,
    layers.CoAttention: of_co_attention,
    layers.AttentionFeatureMap: of_feature_map,
    layers.AttentionWeightedPooling: of_windows,
    layers.StackedCrossAttention: of_stack,
    layers.VisualAttention: of_grid,
    layers.MixtureWindowAttention: by_layer(lambda: layers.MixtureWindowAttention(2)),
    layers.SinusoidalPositions: by_vectors(layers.SinusoidalPositions),
    layers.LearnedPositions: by_vectors(lambda: layers.LearnedPositions(len(SOURCE))),
}


def registered(registry: Registry, by_name: Callable[[str], Callable[[], Picture]]) -> Entries:
    """Return the entries of a registry."""
    return {name: Entry(registry.get(name), by_name(name)) for name in registry.names()}


def sections() -> dict[str, Entries]:
    """Return the entries by section title and name."""
    return {
        "Scores": registered(layers.SCORES, by_score),
        "Alignments": registered(layers.ALIGNMENTS, by_alignment),
        "Relative positions": registered(layers.POSITIONS, by_position),
        "Structures": {cls.__name__: Entry(cls, draw) for cls, draw in STRUCTURES.items()},
    }


INTRODUCTION = {
    "Scores": "Similarity of query and key. The pictures use a softmax alignment.",
    "Alignments": "Functions from scores to weights. The pictures use the general score, at "
    "inference.",
    "Relative positions": "Weights of the first of eight heads on six identical word vectors, so "
    "that only the positions differ.",
    "Structures": "Layers built from scores and alignments. The last two are positional encodings; "
    "their pictures show the similarity of the vectors of each pair of positions.",
}


def section_of(doc: str, name: str) -> str:
    """Return a section of a docstring as one line."""
    found = re.search(rf"^{name}:\n((?:    .*\n|\n)+)", doc, re.M)
    return " ".join(found.group(1).split()) if found else ""


def symbols_of(doc: str) -> str:
    """Return the symbols that stand for arguments and weights, such as "A is `units`"."""
    text = f"{section_of(doc, 'Args')} {section_of(doc, 'Weights')}"
    symbols = re.findall(r"\b(\w+): ([A-Za-z]\w?)[,;]", text)
    return "; ".join(f"{symbol} is `{name}`" for name, symbol in symbols if symbol != name)


def paragraph_of(doc: str, pattern: str) -> str:
    """Return the first paragraph that matches, of those between the first line and the arguments.

    It is empty if there is none.
    """
    head = re.split(r"^(?:Args|Call arguments):$", doc, maxsplit=1, flags=re.M)[0]
    paragraphs = [" ".join(p.split()) for p in head.split("\n\n")[1:]]
    return next((paragraph for paragraph in paragraphs if re.search(pattern, paragraph)), "")


def describe(name: str, cls: type) -> list[str]:
    """Return the lines of a mechanism on the page."""
    doc = inspect.cleandoc(cls.__doc__ or "") + "\n"
    texts = [
        f"### {name}",
        f"![{name}](gallery/{name}.png)",
        f"`layers.{cls.__name__}`. {doc.splitlines()[0]} {paragraph_of(doc, '`')}",
        f"*Symbols:* {symbols}." if (symbols := symbols_of(doc)) else "",
        f"*Cost:* {section_of(doc, 'Cost')}",
        paragraph_of(doc, "^Use it "),
    ]
    return [line for text in texts if text for line in (text, "")]


def page(names: Collection[str] | None = None) -> str:
    """Return the text of gallery.md, with all mechanisms or only some."""
    lines = [
        "# Attention gallery",
        "",
        'Most pictures show attention between two sentences, "the red hat of the woman" and',
        '"le chapeau rouge de la femme". Rows are queries, columns are source words, and darker',
        "means a larger weight. A word and its translation have similar vectors. The word",
        '"the" occurs twice, so content alone does not distinguish the two positions. Layers with',
        "trainable variables were fitted to this pair; layers of one sequence show the first",
        "sentence. Shapes are those of the [glossary](glossary.md). `make docs` generates this",
        "page from the docstrings.",
        "",
    ]
    for title, entries in sections().items():
        lines += [f"## {title}", "", INTRODUCTION[title], ""]
        for name, entry in entries.items():
            if names is None or name in names:
                lines += describe(name, entry.cls)
    return "\n".join(lines).rstrip("\n") + "\n"


def find_problems(folder: Path = HERE, every: bool = False) -> list[str]:
    """Return what is out of date or missing, each with the command to run.

    Args:
        folder: contains gallery.md and gallery/.
        every: also report mechanisms that are not on the page yet.
    """
    text = (folder / "gallery.md").read_text("utf-8")
    shown = re.findall(r"^### (\S+)$", text, re.M)
    known = [name for entries in sections().values() for name in entries]
    problems = [
        f"docs/gallery/{name}.png is missing"
        for name in known
        if (every or name in shown) and not (folder / "gallery" / f"{name}.png").is_file()
    ]
    if text != page(None if every else shown):
        problems.append("docs/gallery.md is out of date")
    return [f"{problem}: run `make docs`" for problem in problems]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--redraw", nargs="*", metavar="NAME", help="draw the pictures of all or some mechanisms"
    )
    redraw = parser.parse_args().redraw
    PAGE.write_text(page(), "utf-8")
    PICTURES.mkdir(exist_ok=True)
    for entries in sections().values():
        for name, entry in entries.items():
            picture = PICTURES / f"{name}.png"
            if redraw == [] or name in (redraw or ()) or not picture.is_file():
                keras.utils.set_random_seed(0)
                weights, rows, columns = entry.draw()
                az.inspection.plot_alignment(ops.convert_to_numpy(weights), rows, columns, picture)
                print(name, flush=True)


if __name__ == "__main__":
    main()
