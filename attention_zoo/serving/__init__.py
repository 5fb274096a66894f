"""Serving of exported models.

Nothing here imports the layers, models, tasks, decoding or data of this library: a serving process
runs exports with TensorFlow alone.
"""

from attention_zoo.serving.exports import load_export, verify_export

__all__ = ["load_export", "verify_export"]
