"""BiLSTM tagger with a softmax or CRF output (Lample et al. 2016)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import keras

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import MultiHeadAttention, RecurrentEncoder
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.residual import Residual
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.tagging.tagger import Inputs, Tagger, WeightList, self_attend
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentTagger(Tagger):
    """Bidirectional LSTMs over words and their characters, with a softmax or CRF output.

    `h = drop(BiLSTM(drop([E[token]; characters; G[mark]])))`, then with attention
    `h = norm(h + drop(attend(h)))`; `emissions = h W + b`

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        tags: names of the K tags, in the order of their ids.
        embedding_dim: width of the embeddings E and G.
        units: D, output width of the BiLSTM, half of it for each direction; or a list of widths
            for stacked BiLSTMs, bottom first.
        attention: None, or arguments of a `layers.MultiHeadAttention` on top of the BiLSTM:
            "num_heads", "key_dim" and others.
        head: any of "kind" ("softmax", the default, or "crf") and "tag_scheme". Sequences that the
            scheme forbids are never decoded and, with "crf", have probability 0 in training too.
        characters: None, or options of character features: "vocabulary_size", "kind" ("cnn", the
            default, or "lstm"), and other arguments of `layers.CharacterCNN` or
            `layers.CharacterLSTM`.
        dropout: dropout rate on embeddings, after every LSTM and in the attention.
        word_dropout: fraction of the tokens that the unknown token replaces in training.
        marks: whether the inputs contain a predicate indicator per token (semantic role labeling).

    Call arguments:
        inputs: integers. `"tokens" (B, P)`, 0 is padding. `"starts" (B, W)`, the position of each
            word's first token, counted from 1, or 0 for padding; if absent, every token is a word.
            `"characters" (B, P, C)`, and `"marks" (B, P)`, 1 at the predicate and else 0, if the
            model uses them.
        training: enables both kinds of dropout.

    Returns:
        Potentials `(B, W + K + 2, K + 1)`: emissions, mask and transition scores in one tensor, see
        `ops.pack`; the input of `decode`, `marginals` and the loss of `make_loss()`.

    Masking:
        Padding (0) may be anywhere, does not affect other positions and is not a word.

    Reference:
        Lample et al. 2016, arXiv 1603.01360, sections 2.1 and 4; Ma and Hovy 2016, arXiv
        1603.01354, section 2. Lample's tanh layer below the CRF is omitted.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        tags: Sequence[str],
        embedding_dim: int = 100,
        units: int | Sequence[int] = 200,
        attention: Config | None = None,
        head: Config | None = None,
        characters: Config | None = None,
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        marks: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        given = units if isinstance(units, list | tuple) else [units]
        widths = [zoo_ops.whole_number("units", width) for width in given]
        if not widths:
            raise ValueError("units must be a width, or a list of at least one")
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.features = WordFeatures(self.settings, dropout, **common)
        self.encoders = [
            RecurrentEncoder("lstm", width, bidirectional=True, **common) for width in widths
        ]
        self.drop = Dropout(dropout, **common)
        self.self_attention: Any = None
        self.attention_residual: Any = None
        if attention is not None:
            options = {"dropout": dropout, **_check_attention_options(attention)}
            self.self_attention = MultiHeadAttention(**options, **common)
            self.attention_residual = Residual(norm_first=False, dropout=dropout, **common)
        self.build_head(widths[-1])

    def build_layers(self) -> None:
        self.features.build()
        width = self.features.width
        for encoder in self.encoders:
            encoder.build((None, None, width))
            width = encoder.units
        shape = (None, None, width)
        if self.self_attention is not None:
            self.self_attention.build(shape, shape)
            self.attention_residual.build(shape)

    # computation

    def encode(
        self, inputs: Inputs, mask: Tensor, training: bool, attention_weights: WeightList = None
    ) -> Tensor:
        x = self.features(inputs, training=training)
        nonempty_mask = zoo_ops.unmask_empty_rows(mask)
        for encoder in self.encoders:
            x, _ = encoder(x, mask=nonempty_mask, training=training)
            x = self.drop(x, training=training)
        if self.self_attention is None:
            return x
        x = zoo_ops.zero_masked(x, mask)
        context = self_attend(self.self_attention, x, mask, training, attention_weights)
        return self.attention_residual.add_output(x, context, training)


# config


def _check_attention_options(attention: Any) -> Config:
    """Return the options; raise ValueError for an unknown or a missing one."""
    parameters = inspect.signature(MultiHeadAttention).parameters
    options = check_options("attention", attention, [n for n in parameters if n != "kwargs"])
    for name, parameter in parameters.items():
        is_required = parameter.default is parameter.empty and name != "kwargs"
        if is_required and name not in options:
            raise ValueError(f"attention needs the option {name!r}, got {options}; add it")
    return options


BILSTM_CNN = Config(
    embedding_dim=100,
    units=400,
    characters={"kind": "cnn", "embedding_dim": 30, "units": 30},
    dropout=0.5,
)
"""Sizes of Ma and Hovy 2016, table 1; `units` counts both directions."""

add_presets(
    RecurrentTagger,
    # The sizes of Lample et al. 2016, section 5.1; `units` counts both directions.
    bilstm_crf=Config(
        embedding_dim=100,
        units=200,
        head={"kind": "crf"},
        characters={"kind": "lstm", "embedding_dim": 25, "units": 50},
        dropout=0.5,
    ),
    # The word and character BiLSTM of Plank et al. 2016, arXiv 1604.05529; other sizes.
    bilstm_lstm=Config(
        embedding_dim=100,
        units=400,
        head={"kind": "softmax"},
        characters={"kind": "lstm", "embedding_dim": 50, "units": 100},
        dropout=0.5,
    ),
    bilstm_cnn_crf=Config(**BILSTM_CNN, head={"kind": "crf"}),
    # With BIO constraints, in training and in decoding.
    bilstm_cnn_crf_constrained=Config(**BILSTM_CNN, head={"kind": "crf", "tag_scheme": "BIO"}),
    # With a softmax head: BLSTM-CNN of Ma and Hovy 2016, table 3.
    bilstm_cnn=Config(**BILSTM_CNN, head={"kind": "softmax"}),
    # Sizes for training on a CPU, with a softmax head and a character CNN.
    tagger_small=Config(**{**BILSTM_CNN, "units": 200}, head={"kind": "softmax"}, word_dropout=0.1),
)
