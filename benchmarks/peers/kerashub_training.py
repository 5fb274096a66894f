"""KerasHub: training of a Transformer on random token ids, with XLA."""

from __future__ import annotations

import common
import keras
import keras_hub
import numpy as np
from keras import ops


def transformer() -> keras.Model:
    """Return a pre-norm Transformer whose embeddings and output share one matrix; 0 is padding."""
    source, target = (keras.Input((None,), dtype="int32", name=n) for n in ("source", "target"))
    table = keras_hub.layers.ReversibleEmbedding(common.VOCABULARY, common.WIDTH)
    positions = keras_hub.layers.SinePositionEncoding()
    sizes = (common.INNER, common.HEADS)
    style = {"dropout": common.DROPOUT, "normalize_first": True}
    source_mask, target_mask = ops.not_equal(source, 0), ops.not_equal(target, 0)
    x, y = (table(tokens) * common.WIDTH**0.5 for tokens in (source, target))
    x, y = x + positions(x), y + positions(y)
    for _ in range(common.LAYERS):
        x = keras_hub.layers.TransformerEncoder(*sizes, **style)(x, padding_mask=source_mask)
    for _ in range(common.LAYERS):
        y = keras_hub.layers.TransformerDecoder(*sizes, **style)(
            y, x, decoder_padding_mask=target_mask, encoder_padding_mask=source_mask
        )
    return keras.Model({"source": source, "target": target}, table(y, reverse=True))


def main() -> None:
    options = common.arguments(__doc__, ["train"])
    keras.utils.set_random_seed(1)
    model = transformer()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=True)

    def train(source: np.ndarray, target: np.ndarray) -> None:
        inputs = {"source": source, "target": target[:, :-1]}
        model.train_on_batch(inputs, target[:, 1:])

    common.time_batches("kerashub", "train XLA", train, options.steps)


if __name__ == "__main__":
    main()
