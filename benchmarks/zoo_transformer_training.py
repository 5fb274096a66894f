"""attention_zoo: time training steps of a Transformer.

The inputs are random token ids with the lengths of Multi30k captions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.models import Transformer
from attention_zoo.training.step import CompiledSteps

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common


def main() -> None:
    options = common.arguments(__doc__, ["train"])
    for jit in (False, True):
        keras.utils.set_random_seed(1)
        model = Transformer(
            common.VOCABULARY,
            common.VOCABULARY,
            embedding_dim=common.WIDTH,
            units=common.INNER,
            num_heads=common.HEADS,
            num_layers=common.LAYERS,
            tie="all",
            dropout=common.DROPOUT,
        )
        model.compile(keras.optimizers.Adam(1e-3), SequenceCrossEntropy())
        model.optimizer.build(model.trainable_variables)
        steps = CompiledSteps(model, tf.distribute.get_strategy(), jit=jit)

        # The default binds this iteration's steps.
        def train(source: np.ndarray, target: np.ndarray, steps: CompiledSteps = steps) -> None:
            inputs = {"source": source, "target": target[:, :-1]}
            batch = (inputs, target[:, 1:], True)  # True: the shard is not empty
            steps.train(iter(tf.data.Dataset.from_tensors(batch)))

        label = "train XLA" if jit else "train"
        common.time_batches("attention_zoo", label, train, options.steps)


if __name__ == "__main__":
    main()
