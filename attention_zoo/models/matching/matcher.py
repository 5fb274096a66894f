"""Base class of the models of text pairs: padding, output layer and losses."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.weights_hooks import run_weights_hooks
from attention_zoo.losses import BinaryCrossEntropy, ClassCrossEntropy, MeanSquaredError
from attention_zoo.models.classification.classifier import check_classes, left_align
from attention_zoo.models.prebuilt import PrebuiltModel, make_token_spec
from attention_zoo.models.presets import Config
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.models.word_vectors import WordVectorsMixin
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

SIDES = ("first", "second")
LOSSES = {"regression": MeanSquaredError, "ranking": BinaryCrossEntropy}
"""Losses of models with one output, by target."""
EMBEDDING_NORM = 8.0
"""Expected norm of the initial token embeddings, near that of GloVe vectors. Tokens that occur in
both texts then have larger scores than others before training; with a norm of 1, all weights are
nearly equal."""


class TokenIds(NamedTuple):
    """Token ids of one text, with padding at the end.

    tokens: `(B, S')`. mask: `(B, S')`, True at tokens. positions: `(B, S)`, the aligned
    position of each input token. S' is S, or 1 for an empty axis.
    """

    tokens: Tensor
    mask: Tensor
    positions: Tensor


class Matcher(WordVectorsMixin, PrebuiltModel):
    """Model of text pairs: computes class logits, or one number, from two texts.

    The constructor of a subclass takes `vocabulary_size` and `classes`. It passes `**kwargs` on to
    this class, begins with `self.init_settings(collect_arguments(locals()))`, creates its layers,
    such as `self.features = self.make_features()`, and ends in `self.build_head(width)`, where
    width is D, that of the pair's features. A subclass defines

    - `build_layers`, which builds all layers except the head by their input shapes;
    - `compare`, from the token ids of both texts to features `(B, D)` and an alignment.

    Call arguments:
        inputs: `{"first": (B, S), "second": (B, T)}`, token ids, integers; 0 is padding, anywhere.
        training: enables dropout.
        return_attention_scores: whether to return the alignment of the two texts too.

    Returns:
        Logits `(B, K)`, float32, of the K classes, or `(B, 1)` without classes; if requested, also
        the alignment `(B, S, T)`, None for a model without attention.

    Masking:
        Padding does not affect the logits; its weights are 0.
    """

    settings: Config

    # layers

    def init_settings(self, settings: Config) -> None:
        """Store the constructor's arguments; ValueError for invalid classes."""
        if settings["classes"] is not None:
            check_classes(settings["classes"], 2)
            settings["classes"] = [str(name) for name in settings["classes"]]
        self.settings = settings

    def make_features(self) -> WordFeatures:
        """Return the embeddings of both texts, from `embedding_dim` and both kinds of dropout."""
        settings = {**self.settings, "characters": None, "marks": False}
        dropout = settings["dropout"]
        return WordFeatures(settings, dropout, norm=EMBEDDING_NORM, dtype=self.dtype_policy)

    def build_head(self, width: int) -> None:
        """Build the output layer, for features of that width, and all weights."""
        self.head = layers.Dense(len(self.classes or ("output",)), dtype=self.dtype_policy)
        self.head.build((None, width))
        self.build()

    def compare(
        self, first: TokenIds, second: TokenIds, training: bool, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the features of the pairs, `(B, D)`, and the alignment of their tokens.

        Args:
            first, second: token ids, with padding at the end.
            training: enables dropout.
            return_weights: whether the alignment `(B, S, T)` is needed; if not, it may be None. Its
                values at padding are ignored.
        """
        raise TypeError(f"{type(self).__name__} does not define `compare`")

    # inputs

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        return {name: make_token_spec(name) for name in SIDES}

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes, None for a model with one output."""
        names = self.settings["classes"]
        return None if names is None else tuple(names)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.settings["vocabulary_size"])

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of each text; None for no limit."""
        return None

    @property
    def max_pair_length(self) -> int | None:
        """Maximum number of tokens of both texts together; None for no limit."""
        return None

    # computation

    def call(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        self.check_input_names(inputs)
        batch = zoo_ops.sizes_or(("batch",), inputs["first"].shape[:1])
        for name in SIDES:
            zoo_ops.check_shape(name, inputs[name].shape, (*batch, "positions"))
        first, second = (TokenIds(*left_align(ops.cast(inputs[name], "int32"))) for name in SIDES)
        features, weights = self.compare(first, second, bool(training), return_attention_scores)
        logits = ops.cast(self.head(features), "float32")
        if not return_attention_scores:
            return logits
        return logits, None if weights is None else _restore_order(weights, first, second)

    def embed(self, text: TokenIds, training: bool) -> Tensor:
        """Return the token embeddings, `(B, S, E)`, after dropout; 0 at padding."""
        embedded = self.features({"tokens": text.tokens}, training=training)
        return zoo_ops.zero_masked(embedded, text.mask)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities of the classes, `(B, K)`; ValueError without classes."""
        if self.classes is None:
            raise ValueError("probabilities need a model with classes, got classes=None")
        return zoo_ops.masked_softmax(logits)

    # training

    def make_loss(
        self, label_smoothing: float = 0.0, target: str | None = None
    ) -> keras.losses.Loss:
        """Return the loss on the logits; its labels are `(B,)`.

        Args:
            label_smoothing: label smoothing of the classes; must be 0 without classes.
            target: without classes "regression" (mean squared error) or "ranking" (binary
                cross-entropy of the relevance); None with classes.
        """
        if self.classes is not None:
            if target is not None:
                raise ValueError(
                    f"target must be None for a model with classes, got {target!r}; set "
                    "classes=None for a number or a ranking"
                )
            return ClassCrossEntropy(label_smoothing)
        check_choice("target", target, LOSSES)
        if label_smoothing:
            raise ValueError(
                f"label_smoothing must be 0 for a model without classes, got {label_smoothing!r}"
            )
        return LOSSES[str(target)]()


def align_texts(
    model: Matcher | None,
    scores: Tensor,
    first: Tensor,
    second: Tensor,
    first_mask: Tensor,
    second_mask: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend from each text to the other one, with the same scores.

    `a~_i = sum_j softmax_j(e_ij) b_j`, `b~_j = sum_i softmax_i(e_ij) a_i`

    Args:
        model: model whose hooks receive the weights of both directions, or None.
        scores: e, `(B, S, T)`.
        first, second: a, `(B, S, D)`; b, `(B, T, D)`.
        first_mask, second_mask: `(B, S)`, `(B, T)`, True at tokens.

    Returns:
        a~, `(B, S, D)`; b~, `(B, T, D)`; and the weights of the first text's positions over the
        second text, `(B, S, T)`. A position whose other text is empty gets 0.
    """
    to_second = zoo_ops.masked_softmax(scores, second_mask[:, None, :])
    to_first = zoo_ops.masked_softmax(ops.swapaxes(scores, 1, 2), first_mask[:, None, :])
    first_aligned = ops.matmul(to_second, ops.cast(second, to_second.dtype))
    first_aligned = run_weights_hooks(model, to_second, second_mask[:, None], first_aligned)
    second_aligned = ops.matmul(to_first, ops.cast(first, to_first.dtype))
    second_aligned = run_weights_hooks(model, to_first, first_mask[:, None], second_aligned)
    return ops.cast(first_aligned, first.dtype), ops.cast(second_aligned, first.dtype), to_second


def _restore_order(weights: Tensor, first: TokenIds, second: TokenIds) -> Tensor:
    """Return the alignment `(B, S, T)`, float32, in the order of the inputs, 0 at padding."""
    mask = ops.logical_and(first.mask[:, :, None], second.mask[:, None, :])
    weights = ops.where(mask, ops.cast(weights, "float32"), 0.0)
    weights = zoo_ops.gather_positions(weights, first.positions, 1)  # (B, S, T')
    weights = zoo_ops.gather_positions(ops.swapaxes(weights, 1, 2), second.positions, 1)
    return ops.swapaxes(weights, 1, 2)
