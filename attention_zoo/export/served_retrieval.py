"""A retriever that takes encoded images and raw texts: how well all match, and where words look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo import ops as zoo_ops
from attention_zoo.data.vocabulary import PAD
from attention_zoo.decoding import Rule
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.refusals import refuse_empty, refuse_rules


class ServedRetrieval(tf.Module):
    """`task.similarities` and `task.predict` of encoded images in core TensorFlow operations.

    Answers are as the task gives them to texts that seek among the images of the batch, of which
    there may be none; all pairs are compared at once. A batch with a text that has no words, or an
    image that is damaged or that `data.graph_image` does not read, is refused whole
    (`InvalidArgumentError`).

    Args:
        task: a `tasks.Retrieval`; `n_best` of its search options says how many images a text finds.
        rules: none; images are searched for by no rules.

    Raises:
        ValueError: rules; a tokenizer of another kind than those of `attention_zoo.data`.
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(name="retrieval")
        refuse_rules(rules, task.name)
        model = task.model
        self.weights = [variable.value for variable in model.variables]
        self.words = GraphTokenizer(task.tokenizer)
        self._regions, self._texts = model.encode_images, model.encode_texts
        self._alike, self._looks = model.matching.similarities, model.looks
        self._side, self._count = task.image_size, task.search.n_best
        self._grid = model.grid_shape((1, self._side, self._side, 3))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="image"),
            tf.TensorSpec([None], tf.string, name="text"),
        ],
        autograph=False,
    )
    def serve(self, image: tf.Tensor, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers to encoded images `(I,)` and texts `(N,)`; see `answers` for what they hold."""
        tokens, _ = self.words.encode(text)
        with tf.control_dependencies([refuse_empty(tokens.row_lengths(), "text")]):
            ids = tokens.to_tensor(PAD)
        no_column = tf.cast(tf.shape(ids)[1] == 0, "int32")  # of no text: encoders need one
        ids = tf.pad(ids, [[0, 0], [0, no_column]], constant_values=PAD)
        return self.answers(self._regions(square_images(image, self._side)), tokens, ids)

    def answers(
        self, regions: tf.Tensor, tokens: tf.RaggedTensor, ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What is served.

        Args:
            regions: what the model made of the images, `(I, S, D)`.
            tokens: ids of the texts, ragged `(N, T)`.
            ids: the same with pads, and with one of no text.

        Returns:
            `similarities` (I, N), how well each image and text match; `found` (N, n), the rows of
            the images that match a text best, best first, n being `n_best` or I if that is less;
            `scores` (N, n), how well they match; `tokens` (N, T) strings; `lengths` (N,), the
            numbers of tokens; `attention` (N, n, T, h, w), where each token looked in each of these
            images, a grid over it (of a model whose regions look at words, how much each looked
            at the token). Past the length tokens are "" and numbers are 0.
        """
        words, mask = texts = self._texts(ids)
        regions = zoo_ops.at_least_float32(regions)
        alike = self._alike(words, regions, mask)
        count = tf.minimum(self._count, tf.shape(alike)[0])
        scores, found = tf.math.top_k(tf.transpose(alike), count)
        pairs = tf.reshape(found, [-1])
        rows = tf.repeat(tf.range(tf.shape(found)[0]), count)
        repeated = (tf.gather(one, rows) for one in texts)
        looks = self._looks(tf.gather(regions, pairs), type(texts)(*repeated))
        labels = tokens.with_values(self.words.labels(tokens.flat_values)).to_tensor("")
        looks = looks[:, : tf.shape(labels)[1]]
        shape = tf.concat([tf.shape(found), tf.shape(looks)[1:2], self._grid], 0)
        return {
            "similarities": tf.cast(alike, "float32"),
            "found": found,
            "scores": tf.cast(scores, "float32"),
            "tokens": labels,
            "lengths": tf.cast(tokens.row_lengths(), "int32"),
            "attention": tf.reshape(tf.cast(looks, "float32"), shape),
        }
