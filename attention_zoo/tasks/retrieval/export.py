"""Exported retriever of encoded images and raw texts: similarities and attention in one graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo import ops as zoo_ops
from attention_zoo.export.checks import refuse_empty
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.modules import TaskModule, pad_ragged, string_signature


class RetrievalModule(TaskModule):
    """`task.similarities` and `task.predict` of encoded images in core TensorFlow operations.

    The results are those of the task if the texts search the images of the batch. All pairs are
    compared at once. A batch may have no images or no texts. A batch with a text without words, a
    damaged image, or an image that `data.graph_image` rejects, is rejected as a whole
    (`InvalidArgumentError`).

    Args:
        task: a `tasks.Retrieval`; `n_best` of its search options is the number of images per text.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
    """

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.words, model = GraphTokenizer(task.tokenizer), task.model
        self._encode_images, self._encode_texts = model.encode_images, model.encode_texts
        self._similarities = model.matching.similarities
        self._attention_weights = model.encoded_attention_weights
        self._side, self._count = task.image_size, task.search.n_best
        self._grid = model.grid_shape((1, self._side, self._side, 3))

    @string_signature("image", "text")
    def serve(self, image: tf.Tensor, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Match encoded images `(I,)` and texts `(N,)`; see `format_outputs` for the outputs."""
        tokens, _ = self.words.encode(text)
        with tf.control_dependencies([refuse_empty(tokens.row_lengths(), "text")]):
            ids = pad_ragged(tokens)
        regions = self._encode_images(square_images(image, self._side))
        return self.format_outputs(regions, tokens, ids)

    def format_outputs(
        self, regions: tf.Tensor, tokens: tf.RaggedTensor, ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            regions: encoded images, `(I, S, D)`.
            tokens: ids of the texts, ragged `(N, T)`.
            ids: the same, padded; at least one column.

        Returns:
            `similarities` (I, N) of images and texts; `image_indices` (N, n), the indices of the n
            images most similar to each text, best first, where n is the smaller of `n_best` and I;
            `scores` (N, n), their similarities; `tokens` (N, T) strings; `lengths` (N,), numbers of
            tokens; `attention` (N, n, T, h, w), the attention weights of each token over a grid on
            each of these images (if regions attend to words, the weight of the token for each
            region). At positions after the end, tokens are "" and numbers are 0.
        """
        words, mask = texts = self._encode_texts(ids)
        regions = zoo_ops.at_least_float32(regions)
        similarities = self._similarities(words, regions, mask)
        count = tf.minimum(self._count, tf.shape(similarities)[0])
        scores, image_indices = tf.math.top_k(tf.transpose(similarities), count)
        text_indices = tf.repeat(tf.range(tf.shape(image_indices)[0]), count)
        repeated_texts = type(texts)(*(tf.gather(one, text_indices) for one in texts))
        retrieved = tf.gather(regions, tf.reshape(image_indices, [-1]))
        attention = self._attention_weights(retrieved, repeated_texts)
        labels = tokens.with_values(self.words.labels(tokens.flat_values)).to_tensor("")
        attention = attention[:, : tf.shape(labels)[1]]
        shape = tf.concat([tf.shape(image_indices), tf.shape(attention)[1:2], self._grid], 0)
        return {
            "similarities": tf.cast(similarities, "float32"),
            "image_indices": image_indices,
            "scores": tf.cast(scores, "float32"),
            "tokens": labels,
            "lengths": tf.cast(tokens.row_lengths(), "int32"),
            "attention": tf.reshape(tf.cast(attention, "float32"), shape),
        }
