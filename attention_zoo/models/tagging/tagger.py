"""Base class of taggers: potentials of words from token states, decoding and marginals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.metrics import CRFAccuracy
from attention_zoo.models.prebuilt import PrebuiltModel, make_token_spec
from attention_zoo.models.presets import Config
from attention_zoo.models.tagging.tag_heads import HEADS, complete_head_options
from attention_zoo.models.tagging.word_features import complete_character_options
from attention_zoo.models.word_vectors import WordVectorsMixin
from attention_zoo.typing import Tensor

Inputs = dict[str, Any]
WeightList = list[Tensor] | None
"""A list to which every self-attention appends its weights, or None."""

PAD = 0


class Tagger(WordVectorsMixin, PrebuiltModel):
    """Tagger of words: computes potentials of tag sequences.

    The constructor of a subclass takes `vocabulary_size`, `tags`, `head` (None for a softmax),
    `marks` and, if it uses characters, `characters`. It passes `**kwargs` on to this class, begins
    with `self.init_settings(collect_arguments(locals()))`, creates `self.features` (`WordFeatures`,
    or a layer with the same call and a `token_embedding`) and other layers, and ends in
    `self.build_head(width)`, where width is D, that of the states. A subclass defines

    - `build_layers`, which builds all layers except the head by their input shapes;
    - `encode`, from tokens to states `(B, P, D)`.

    Call arguments:
        inputs: integers. `"tokens" (B, P)`, 0 is padding, anywhere. `"starts" (B, W)`, the
            position of each word's first token, counted from 1, or 0 for padding; if absent, every
            token is a word. `"characters" (B, P, C)` of each token, and `"marks" (B, P)`, 1 at the
            predicate and else 0, if the model uses them.
        training: enables dropout.

    Returns:
        Potentials `(B, W + K + 2, K + 1)`: emissions, mask and transition scores in one float32
        tensor, see `ops.pack`; without a Keras mask.

    Masking:
        Padding does not affect other positions; it is not a word.
    """

    settings: Config

    # layers

    def init_settings(self, settings: Config) -> None:
        """Store the constructor's arguments with all defaults; ValueError for invalid ones."""
        tags = settings["tags"]
        if isinstance(tags, str) or not isinstance(tags, Sequence) or not len(tags):
            raise ValueError(f"tags must be a list of names, at least one, got {tags!r}")
        settings["tags"] = [str(tag) for tag in tags]
        settings["head"] = complete_head_options(settings["head"])
        if "characters" in settings:
            settings["characters"] = complete_character_options(settings["characters"])
        self.settings = settings

    def build_head(self, width: int) -> None:
        """Build the head, for states of that width, and all weights."""
        options = dict(self.settings["head"])
        head = HEADS.get(options.pop("kind"))
        self.head = head(self.settings["tags"], **options, dtype=self.dtype_policy)
        self.head.build((None, None, width))
        self.build()

    def encode(
        self, inputs: Inputs, mask: Tensor, training: bool, attention_weights: WeightList = None
    ) -> Tensor:
        """Return the states of the tokens, `(B, P, D)`; those of padding are ignored.

        Args:
            inputs: as in the call, with padding moved to the end of each row.
            mask: `(B, P)`, True at tokens.
            training: enables dropout.
            attention_weights: None, or a list to which every self-attention appends its weights
                `(B, H, P, P)`.
        """
        raise TypeError(f"{type(self).__name__} does not define `encode`")

    # inputs

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        specs = {"tokens": make_token_spec("tokens")}
        if self.characters is not None:
            specs["characters"] = make_token_spec("characters", rank=3)
        if self.settings["marks"]:
            specs["marks"] = make_token_spec("marks")
        return {**specs, "starts": make_token_spec("starts", optional=True)}

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.settings["vocabulary_size"])

    @property
    def characters(self) -> Config | None:
        """Options of the character features, None if the model has none."""
        return self.settings.get("characters")

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a sentence; None for no limit."""
        return None

    @property
    def has_class_token(self) -> bool:
        """Whether the model expects a class token before a sentence, and an end token after it."""
        return False

    # computation

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        aligned, mask, order = self._left_align(inputs)
        states = self.encode(aligned, mask, bool(training))
        starts = inputs.get("starts")
        if starts is None:
            starts = ops.arange(1, ops.shape(order)[1] + 1, dtype="int32")
            starts = starts + ops.zeros_like(order)
        positions = _map_positions(ops.cast(starts, "int32"), mask, order)
        return self.compute_potentials(zoo_ops.zero_masked(states, mask), mask, positions)

    def compute_potentials(self, states: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        """Return the potentials of words, by default from the state of each word's first token.

        Args:
            states: states of the tokens, `(B, P, D)`, padding at the end.
            mask: `(B, P)`, True at tokens.
            positions: position of each word's first token, `(B, W)`, counted from 1; 0 for padding.
        """
        return self.head(gather_one_based(states, positions), positions > 0)

    def _left_align(self, inputs: Inputs) -> tuple[Inputs, Tensor, Tensor]:
        """Move padding to the end; return the inputs, the mask and each token's old position.

        So distances count tokens only, adjacent words stay adjacent, and cuDNN accepts the masks.
        """
        names = self._check_inputs(inputs)
        tensors = {name: ops.cast(inputs[name], "int32") for name in names}
        order = zoo_ops.to_front(ops.not_equal(tensors["tokens"], PAD))
        aligned = {
            name: ops.take_along_axis(x, order[..., None] if len(x.shape) == 3 else order, axis=1)
            for name, x in tensors.items()
        }
        return aligned, ops.not_equal(aligned["tokens"], PAD), order

    def _check_inputs(self, inputs: Inputs) -> list[str]:
        """Return the names of the token inputs; ValueError for missing ones or wrong shapes."""
        names = self.check_input_names(inputs)
        sizes = zoo_ops.sizes_or(("batch", "positions"), inputs["tokens"].shape[:2])
        for name in names:
            expected = (*sizes, "characters") if name == "characters" else sizes
            zoo_ops.check_shape(name, inputs[name].shape, expected)
        if inputs.get("starts") is not None:
            zoo_ops.check_shape("starts", inputs["starts"].shape, (sizes[0], "words"))
        return names

    def attention(self, inputs: Inputs) -> Tensor | None:
        """Return the weights of all L self-attentions, `(B, L, H, P, P)`, None if there are none.

        Weights from and to padding are 0. If the model splits sentences into windows, so are those
        from a token to tokens outside the window that its state is from; the memory is quadratic
        in P nevertheless.

        Args:
            inputs: as in the call.
        """
        aligned, mask, order = self._left_align(inputs)
        attention_weights: list[Tensor] = []
        self.encode(aligned, mask, False, attention_weights)
        if not attention_weights:
            return None
        pair_mask = ops.logical_and(mask[:, :, None], mask[:, None, :])[:, None, None]
        weights = ops.stack(attention_weights, axis=1)
        weights = ops.where(pair_mask, weights, ops.zeros((), weights.dtype))
        inverse_order = ops.argsort(order, axis=1)
        weights = ops.take_along_axis(weights, inverse_order[:, None, None, :, None], axis=3)
        return ops.take_along_axis(weights, inverse_order[:, None, None, None, :], axis=4)

    # predictions

    def decode(self, potentials: Tensor, count: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the best tags of each sentence (Viterbi), or the N best sequences.

        Args:
            potentials: output of the model.
            count: N, number of sequences; None for one, without an axis of its own.

        Returns:
            tags: `(B, W)` int32, or `(B, N, W)` best first; 0 at padding.
            scores: `(B,)` or `(B, N)`; -inf, with tags 0, if there are fewer sequences.
        """
        chain = self._chain(potentials)
        if count is None:
            return zoo_ops.best_path(chain)
        return zoo_ops.best_paths(chain, zoo_ops.whole_number("count", count))

    def marginals(self, potentials: Tensor) -> Tensor:
        """Return the probability of each tag at each word, `(B, W, K)`; 0 at padding."""
        return zoo_ops.marginals(self._chain(potentials))

    def _chain(self, potentials: Tensor) -> Any:
        potentials = ops.convert_to_tensor(potentials)
        tags = len(self.settings["tags"])
        zoo_ops.check_shape("potentials", potentials.shape, ("batch", "words + tags + 2", tags + 1))
        return zoo_ops.unpack(potentials)

    # training

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Compile the model, as `keras.Model.compile` does; "accuracy" is a `CRFAccuracy`.

        Raises:
            ValueError: another accuracy of Keras, which cannot read potentials.
        """
        metrics, weighted_metrics = keras.tree.map_structure(
            _replace_accuracy, (metrics, weighted_metrics)
        )
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, **kwargs)

    def compile_from_config(self, config: Config) -> None:
        """Compile a loaded model; Keras skips this for models that override `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the loss on potentials; its labels are `(B, W)`, -1 for unknown tags or padding.

        Args:
            label_smoothing: label smoothing of a softmax head; must be 0 with a CRF.
        """
        return self.head.make_loss(label_smoothing)


def _replace_accuracy(metric: Any) -> Any:
    """Return the metric, a `CRFAccuracy` for "accuracy"; ValueError for accuracies of Keras."""
    if metric in ("accuracy", "acc"):
        return CRFAccuracy(name=metric)
    name = metric if isinstance(metric, str) else type(metric).__name__
    if "accuracy" in name.lower() and (metric == name or hasattr(keras.metrics, name)):
        raise ValueError(
            f"metrics must not contain {name}, which cannot read the potentials of a tagger; use "
            "attention_zoo.metrics.CRFAccuracy()"
        )
    return metric


def self_attend(
    heads: Any, x: Tensor, mask: Tensor, training: bool, attention_weights: WeightList
) -> Tensor:
    """Apply self-attention to `x (B, P, D)`; append its weights to the list, if given."""
    masks = {"query_mask": mask, "value_mask": mask}
    if attention_weights is None:
        return heads(x, x, **masks, training=training)
    context, weights = heads(x, x, **masks, training=training, return_attention_scores=True)
    attention_weights.append(weights)
    return context


def _map_positions(starts: Tensor, mask: Tensor, order: Tensor) -> Tensor:
    """Return the positions after `order` of the positions `starts`, both counted from 1.

    They are 0 for padding tokens and for positions outside the sequence.
    """
    length = ops.shape(order)[1]
    is_valid = ops.logical_and(starts > 0, starts <= length)
    inverse_order = ops.cast(ops.argsort(order, axis=1), "int32")
    is_token = ops.take_along_axis(mask, inverse_order, axis=1)
    positions = ops.where(is_token, inverse_order + 1, 0)[..., None]
    return gather_one_based(positions, ops.where(is_valid, starts, 0))[..., 0]


def gather_one_based(x: Tensor, positions: Tensor) -> Tensor:
    """Gather `x (B, P, D)` at positions `(B, W)`, counted from 1; position 0 gives 0."""
    return ops.take_along_axis(ops.pad(x, ((0, 0), (1, 0), (0, 0))), positions[..., None], axis=1)
