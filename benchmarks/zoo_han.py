"""attention_zoo: training of a hierarchical attention network, on random token ids."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from attention_zoo.models import HierarchicalAttentionNetwork
from attention_zoo.training.step import CompiledSteps

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common


def main() -> None:
    options = common.arguments(__doc__, ["train"])
    tf.config.set_visible_devices([], "GPU")  # the peer computes on the CPU
    keras.utils.set_random_seed(1)
    model = HierarchicalAttentionNetwork(
        common.VOCABULARY,
        [str(number) for number in range(common.HAN_CLASSES)],
        embedding_dim=common.HAN_EMBEDDING,
        units=common.HAN_UNITS,
        attention_units=common.HAN_UNITS,
    )
    model.compile(keras.optimizers.Adam(1e-3), model.make_loss())
    model.optimizer.build(model.trainable_variables)
    steps = CompiledSteps(model, tf.distribute.get_strategy(), jit=False)

    def train(tokens: np.ndarray, classes: np.ndarray) -> None:
        batch = ({"tokens": tokens}, classes, True)  # True: the shard is not empty
        steps.train(iter(tf.data.Dataset.from_tensors(batch)))

    common.time_documents("attention_zoo", train, options.steps)


if __name__ == "__main__":
    main()
