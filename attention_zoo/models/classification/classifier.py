"""Base class of text classifiers: logits, probabilities and the loss on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.losses import ClassCrossEntropy
from attention_zoo.models.prebuilt import PrebuiltModel, make_token_spec
from attention_zoo.models.presets import Config
from attention_zoo.models.word_vectors import WordVectorsMixin
from attention_zoo.ops.arguments import format_value
from attention_zoo.typing import Tensor

PAD = 0
Weights = dict[str, Tensor]
"""Attention weights by name: "tokens" and, of documents, "sentences"; {} without attention."""


class Classifier(WordVectorsMixin, PrebuiltModel):
    """Classifier of texts: computes the logits of classes.

    The constructor of a subclass takes `vocabulary_size`, `classes` and `multi_label`. It passes
    `**kwargs` on to this class, begins with `self.init_settings(collect_arguments(locals()))`,
    creates `self.features` (`WordFeatures`, or a layer with a `token_embedding`) and other layers,
    and ends in `self.build_head(width)`, where width is D. A subclass defines

    - `build_layers`, which builds all layers except the head by their input shapes;
    - `encode`, from tokens to one vector `(B, D)` per text, and its attention weights.

    Call arguments:
        inputs: `{"tokens": (B, P)}`, integers, 0 is padding, anywhere. Models with `has_sentences`
            take `(B, L, W)`, the words of each sentence; empty sentences may be anywhere.
        training: enables dropout.
        return_attention_scores: whether to also return the attention weights.

    Returns:
        Logits `(B, K)`, float32; on request, also a dict of float32 weights: "tokens" `(B, P)`, or
        `(B, L, W)` and "sentences" `(B, L)`. It is empty for a model without attention.

    Masking:
        Padding does not affect the logits and has weight 0. The weights of a text with tokens sum
        to 1; in a document, those of each sentence with tokens, and those of the sentences.
    """

    has_sentences: ClassVar[bool] = False
    """Whether texts are documents, with an axis of sentences."""
    has_class_token: ClassVar[bool] = False
    """Whether the model expects a class token before each text, and an end token after it."""
    settings: Config

    # layers

    def init_settings(self, settings: Config) -> None:
        """Store the constructor's arguments; ValueError for invalid classes."""
        check_classes(settings["classes"], 1 if settings["multi_label"] else 2)
        settings["classes"] = [str(name) for name in settings["classes"]]
        self.settings = settings

    def build_head(self, width: int, kernel_constraint: Any = None) -> None:
        """Build the layer from vectors of that width to logits, and all weights."""
        self.head = layers.Dense(
            len(self.classes), kernel_constraint=kernel_constraint, dtype=self.dtype_policy
        )
        self.head.build((None, width))
        self.build()

    def encode(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Weights]:
        """Return one vector for each text, `(B, D)`, and the attention weights.

        Args:
            tokens: `(B, P)` or `(B, L, W)` int32, with padding anywhere; see `left_align`.
            training: enables dropout.
            return_attention_scores: whether the weights are used; if not, they may be {}.
        """
        raise TypeError(f"{type(self).__name__} does not define `encode`")

    # inputs

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        return {"tokens": make_token_spec("tokens", rank=3 if self.has_sentences else 2)}

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the K classes, in the order of the logits."""
        return tuple(self.settings["classes"])

    @property
    def multi_label(self) -> bool:
        """Whether a text has any number of classes, not exactly one."""
        return bool(self.settings["multi_label"])

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.settings["vocabulary_size"])

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text; None for no limit."""
        return None

    # computation

    def call(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        tokens = ops.cast(inputs["tokens"], "int32")
        axes = ("batch", "sentences", "words") if self.has_sentences else ("batch", "tokens")
        zoo_ops.check_shape("tokens", tokens.shape, axes)
        vectors, weights = self.encode(tokens, bool(training), return_attention_scores)
        logits = ops.cast(self.head(vectors), "float32")
        if not return_attention_scores:
            return logits
        return logits, {name: ops.cast(x, "float32") for name, x in weights.items()}

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return probabilities `(B, K)` of logits: of each class, or that it is right."""
        return ops.sigmoid(logits) if self.multi_label else zoo_ops.masked_softmax(logits)

    # training

    def make_loss(
        self, label_smoothing: float = 0.0, class_weights: Sequence[float] | None = None
    ) -> ClassCrossEntropy:
        """Return the loss on logits.

        Args:
            label_smoothing: see `losses.ClassCrossEntropy`.
            class_weights: weights of the K classes, or None for equal weights.

        Raises:
            ValueError: another number of weights than classes, or an invalid weight.
        """
        if class_weights is not None and len(class_weights) != len(self.classes):
            raise ValueError(
                f"class_weights must have one weight for each of {len(self.classes)} classes, got "
                f"{len(class_weights)}"
            )
        return ClassCrossEntropy(label_smoothing, class_weights, self.multi_label)


def check_classes(classes: Any, minimum: int) -> None:
    """Raise ValueError unless `classes` is a list of at least `minimum` distinct names."""
    is_list = isinstance(classes, Sequence) and not isinstance(classes, str)
    if not is_list or len(classes) < minimum:
        got = format_value(classes)
        raise ValueError(f"classes must be a list of at least {minimum} names, got {got}")
    names = [str(name) for name in classes]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(
            f"classes must be distinct, got {repeated!r} {names.count(repeated)} times"
        )


def left_align(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move padding to the end of each row, so that adjacent words stay adjacent.

    Recurrent kernels of GPUs need it too.

    Args:
        tokens: `(B, P)`.

    Returns:
        The tokens and their mask, `(B, P')`, where P' is P, or 1 for an empty axis (`P' - P` may be
        1 for a symbolic P); and the new position of each token, `(B, P)`.
    """
    batch, length = ops.shape(tokens)
    if not zoo_ops.static_size(tokens.shape[1]):  # recurrent layers reject a length of 0
        extra = ops.maximum(1 - length, 0) if ops.is_tensor(length) else 1
        tokens = ops.concatenate([tokens, ops.zeros((batch, extra), tokens.dtype)], axis=1)
    order = zoo_ops.to_front(ops.not_equal(tokens, PAD))
    tokens = ops.take_along_axis(tokens, order, axis=1)
    positions = ops.argsort(order, axis=1)[:, :length]
    return tokens, ops.not_equal(tokens, PAD), positions


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of `x (B, P, D)` over the positions in `mask (B, P)`; 0 if there are none."""
    total = ops.sum(zoo_ops.at_least_float32(zoo_ops.zero_masked(x, mask)), axis=1)
    count = ops.sum(ops.cast(mask, total.dtype), axis=1, keepdims=True)
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype)
