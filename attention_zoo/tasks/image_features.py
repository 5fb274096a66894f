"""Feature grids of a frozen image encoder, loaded from the cache or computed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo.data.progress import log_progress
from attention_zoo.data.storage.image_column import FeatureFile
from attention_zoo.data_cache import get_corpus_cache, is_builtin

BATCH_SIZE = 32
FEATURES = "features.npy"
"""Name of the file in an entry of the cache."""

Features = NDArray[np.float16] | FeatureFile


def load_or_compute_features(model: Any, examples: Any) -> Features:
    """Return the encoder's feature grid of each image, `(N, h, w, C)`, float16.

    Args:
        model: a model with an image `encoder`; `model.settings["encoder"]` has its options.
        examples: a corpus with `images`.

    Raises:
        ValueError: a feature is not a finite number in float16.
    """
    cache = get_corpus_cache(examples)
    if cache is None or not is_builtin(model.encoder) or not is_builtin(model):
        return np.concatenate(list(_compute_features(model.encoder, examples.images)))

    def write(folder: Path) -> None:
        features = FeatureFile(folder / FEATURES, create=True)
        for part in _compute_features(model.encoder, examples.images):
            for grid in part:
                features.append(grid)
        features.close()

    key = {
        "options": model.settings["encoder"],
        "dtype": model.encoder.compute_dtype,
        "weights": _hash_weights(model.encoder),
        "keras": keras.__version__,
    }
    return FeatureFile(cache.get_or_create("features", key, write) / FEATURES)


def _compute_features(encoder: Any, images: Any) -> Iterator[NDArray[np.float16]]:
    """Yield the feature grids of the images, batch by batch."""
    starts = range(0, len(images), BATCH_SIZE)
    for start in log_progress(starts, "computing features", "images", BATCH_SIZE):
        batch = ops.convert_to_tensor(images[start : start + BATCH_SIZE])
        grids = ops.convert_to_numpy(encoder(batch, training=False)).astype(np.float32)
        if not np.abs(grids).max(initial=0) <= np.finfo(np.float16).max:
            raise ValueError(
                "training.cache_features: a feature is not finite or exceeds the range of float16;"
                " set training.cache_features=false"
            )
        yield grids.astype(np.float16)


def _hash_weights(encoder: Any) -> str:
    """Return the SHA-256 of the values of all weights."""
    digest = hashlib.sha256()
    for weight in encoder.weights:
        digest.update(np.ascontiguousarray(ops.convert_to_numpy(weight)).data)
    return digest.hexdigest()
