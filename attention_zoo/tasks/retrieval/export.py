"""Exported retriever of encoded images and raw texts: similarities and attention in one graph."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensorflow as tf

from attention_zoo.export.checks import (
    check_empty,
    get_first_error,
    scatter_rows,
    serve_valid_rows,
)
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.modules import (
    STRINGS,
    Inputs,
    TaskModule,
    pad_ragged,
)
from attention_zoo.models.vision.cross_attention_retriever import EncodedTexts

NAN_FEATURES = "the model returned NaN features; export an earlier checkpoint"


class RetrievalModule(TaskModule):
    """`task.similarities` and `task.predict` of encoded images in core TensorFlow operations.

    The results are those of the task if the texts search the images of the batch. All pairs are
    compared at once. A batch may have no images or no texts. To encode images once, use the
    signatures `encode_images`, `encode_texts` and `rank`.

    Args:
        task: a `tasks.Retrieval`; `n_best` of its search options is the number of images per text.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
    """

    inputs: ClassVar[Inputs] = {"image": STRINGS, "text": STRINGS}
    joint_signatures: ClassVar[tuple[str, ...]] = ("serving_default", "rank")

    def __init__(self, task: Any) -> None:
        self.words, model = GraphTokenizer(task.tokenizer), task.model
        self._image_encoder, self._text_encoder = model.encode_images, model.encode_texts
        self._similarities = model.matching.similarities
        self._attention_weights = model.encoded_attention_weights
        self._side, self._count = task.image_size, task.search.n_best
        self._grid = model.grid_shape((1, self._side, self._side, 3))
        self._units = model.settings["units"]
        super().__init__(task)

    def make_signatures(self) -> dict[str, Any]:
        encoded = {
            "regions": tf.TensorSpec([None, math.prod(self._grid), self._units], tf.float32),
            "words": tf.TensorSpec([None, None, self._units], tf.float32),
            "mask": tf.TensorSpec([None, None], tf.bool),
        }
        return {
            **super().make_signatures(),
            "encode_images": self._compile(self.encode_images, {"image": STRINGS}),
            "encode_texts": self._compile(self.encode_texts, {"text": STRINGS}),
            "rank": self._compile(self.rank, encoded),
        }

    def _serve(self, image: tf.Tensor, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Match encoded images `(I,)` and texts `(N,)`.

        Returns:
            The outputs of `rank`; `tokens` (N, T) strings and `lengths` (N,), numbers of tokens,
            where tokens after the end are ""; `ok` and `error` (N,) of the texts, `image_ok` and
            `image_error` (I,) of the images. Images with an error are not retrieved. Similarities
            with an image or text with an error are -inf.
        """
        encoded = self.encode_images(image)
        has_image = encoded["ok"]
        regions = tf.boolean_mask(encoded["regions"], has_image)
        ids, errors = self._tokenize(text)
        numbers = tf.cast(tf.where(has_image)[:, 0], "int32")

        def match(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            kept = tf.gather(ids, rows)
            words, mask = self._text_encoder(pad_ragged(kept))
            ranked = self.rank(regions, words, mask)
            by_text = scatter_rows({"similarities": ranked["similarities"]}, has_image)
            error = _find_nan(words, mask)
            return {
                **ranked,
                **self._format_tokens(kept),
                # NaN scores have a message of their own, which is about logits.
                "scores": tf.where(error[:, None] == "", ranked["scores"], 0),
                "similarities": tf.transpose(by_text["similarities"]),
                "image_indices": tf.gather(numbers, ranked["image_indices"]),
                "attention": ranked["attention"][:, :, : tf.reduce_max(kept.row_lengths())],
                "error": error,
            }

        outputs = serve_valid_rows(errors, match)
        outputs["similarities"] = tf.transpose(outputs["similarities"])
        return {**outputs, "image_ok": has_image, "image_error": encoded["error"]}

    def encode_images(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encode images `(I,)`.

        Returns:
            `regions` (I, S, D); `ok` and `error` (I,).
        """
        errors, images = square_images(image, self._side)

        def encode(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            regions = tf.cast(self._image_encoder(images), "float32")
            return {"regions": regions, "error": _find_nan(regions)}

        return serve_valid_rows(errors, encode)

    def encode_texts(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encode texts `(N,)`.

        Returns:
            `words` (N, T, D); `mask` (N, T), True at words; `tokens` (N, T) strings and `lengths`
            (N,), numbers of tokens; `ok` and `error` (N,).
        """
        ids, errors = self._tokenize(text)

        def encode(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            kept = tf.gather(ids, rows)
            words, mask = self._text_encoder(pad_ragged(kept))
            words = tf.cast(words, "float32")
            error = _find_nan(words, mask)
            return {"words": words, "mask": mask, **self._format_tokens(kept), "error": error}

        return serve_valid_rows(errors, encode)

    def rank(self, regions: tf.Tensor, words: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Rank encoded images for encoded texts.

        Args:
            regions: of images, `(I, S, D)`.
            words: of texts, `(N, T, D)`.
            mask: `(N, T)`, True at words.

        Returns:
            `similarities` (I, N) of images and texts; `image_indices` (N, n), the indices of the n
            images most similar to each text, best first, where n is the smaller of `n_best` and I;
            `scores` (N, n), their similarities; `attention` (N, n, T, h, w), the attention weights
            of each token over a grid on each of these images (if regions attend to words, the
            weight of the token for each region), 0 after the end of a text.
        """
        similarities = self._similarities(words, regions, mask)
        count = tf.minimum(self._count, tf.shape(similarities)[0])
        scores, image_indices = tf.math.top_k(tf.transpose(similarities), count)
        text_indices = tf.repeat(tf.range(tf.shape(image_indices)[0]), count)
        texts = EncodedTexts(*(tf.gather(x, text_indices) for x in (words, mask)))
        retrieved = tf.gather(regions, tf.reshape(image_indices, [-1]))
        attention = self._attention_weights(retrieved, texts)
        shape = tf.concat([tf.shape(image_indices), tf.shape(words)[1:2], self._grid], 0)
        return {
            "similarities": tf.cast(similarities, "float32"),
            "image_indices": image_indices,
            "scores": tf.cast(scores, "float32"),
            "attention": tf.reshape(tf.cast(attention, "float32"), shape),
        }

    def _tokenize(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Return the ids of texts `(N,)`, ragged, and their errors `(N,)`."""
        ids, _ = self.words.encode(text)
        return ids, get_first_error(check_empty(ids.row_lengths()))

    def _format_tokens(self, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        labels = ids.with_values(self.words.labels(ids.flat_values))
        return {
            "tokens": labels.to_tensor(""),
            "lengths": tf.cast(ids.row_lengths(), "int32"),
        }


def _find_nan(features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Return the error of each row of features `(B, S, D)` that are NaN at an unmasked position.

    The similarities of such a row can still be finite, so the features are checked.
    """
    is_nan = tf.reduce_any(tf.math.is_nan(features), axis=2)
    is_nan = is_nan if mask is None else is_nan & mask
    return get_first_error((tf.reduce_any(is_nan, axis=1), NAN_FEATURES))
