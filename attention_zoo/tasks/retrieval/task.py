"""Retrieval: find images by text, and texts by image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import (
    CaptionedImages,
    read_image,
)
from attention_zoo.decoding import Rule
from attention_zoo.metrics import mass_in_boxes, recall_at_k
from attention_zoo.ops import at_least_float32, whole_number
from attention_zoo.tasks.base import TASKS, Input, refuse_rules
from attention_zoo.tasks.image_texts import (
    Image,
    ImageTextTask,
    Tokens,
    flatten_captions,
    is_single_image,
)
from attention_zoo.tasks.retrieval.result import ImageIndex, RetrievalResult
from attention_zoo.tasks.text_inputs import padded, same_width, unknown_characters

FIRST = (1, 5, 10)
"""The k of recall at k."""


@TASKS.register("retrieval")
class Retrieval(ImageTextTask):
    """Image-text retrieval: a model that scores images against texts, and its tokenizer.

    Args:
        model: a `models.CrossAttentionRetriever`.
        tokenizer: `data.Tokenizer` with the model's vocabulary.
        search: only `batch_size` and `n_best` are used.
        image_size: every image is resized to a square with this side, in pixels.
        max_target_length: maximum number of tokens of a text; training drops longer texts.

    Raises:
        ValueError: if the model is of another class, its vocabulary size is not the tokenizer's, or
            its encoder does not take RGB images of `image_size`.
    """

    name: ClassVar[str] = "retrieval"
    metric_names: ClassVar[tuple[str, ...]] = (
        *(f"{side}_recall{k}" for side in ("image", "text") for k in (1, 5, 10)),
        "recall_sum",
    )

    inputs: ClassVar[tuple[Input, ...]] = (Input("texts"), Input("index", "image_index"))
    uses_beam_search: ClassVar[bool] = False
    card_metrics: ClassVar[Mapping[str, str]] = {
        "images": "images",
        "texts": "texts",
        "image_recall1 / image_recall5 / image_recall10": "image retrieval, R@1 / 5 / 10",
        "text_recall1 / text_recall5 / text_recall10": "text retrieval, R@1 / 5 / 10",
        "mass_in_boxes": "attention mass in boxes",
        "area_of_boxes": "box area (uniform attention)",
    }
    model_class = models.CrossAttentionRetriever
    model_error = "model must be a models.CrossAttentionRetriever"

    # Training.

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the model's loss: triplet loss with hardest in-batch negatives.

        Raises:
            ValueError: if `label_smoothing` is not 0; there are no labels to smooth.
        """
        if label_smoothing:
            raise ValueError(
                f"training.label_smoothing={label_smoothing}: retrieval has no labels to smooth;"
                " remove it from the recipe"
            )
        made: keras.losses.Loss = self.model.make_loss()
        return made

    # Prediction.

    def index(
        self, images: Sequence[Image] | CaptionedImages, names: Sequence[str] | None = None
    ) -> ImageIndex:
        """Encode images for `predict`, with the current weights of the model.

        Args:
            images: paths, encoded images or arrays `(H, W, 3)`, see `data.read_image`; or a corpus.
            names: name of each image. By default those of the corpus, or the image's path, or
                "image" and its number from 0.

        Raises:
            ValueError: if `images` is empty, an image is invalid, or the number of names differs.
        """
        if isinstance(images, CaptionedImages):
            names, images = names or images.names, list(images.images)
        if is_single_image(images):
            raise ValueError("index takes a list of images; write index([image])")
        if not len(images):
            raise ValueError("images is empty; give at least one image")
        called = [
            str(one) if isinstance(one, str | Path) else f"image {row}"
            for row, one in enumerate(images)
        ]
        if names is not None and len(names) != len(images):
            raise ValueError(f"{len(images)} images but {len(names)} names; give one for each")
        read = [
            read_image(one, self.image_size, where)
            for one, where in zip(images, called, strict=True)
        ]
        stack = np.stack(read)
        return ImageIndex(tuple(called if names is None else names), stack, self._regions(stack))

    def predict(
        self,
        texts: Sequence[str],
        *,
        index: ImageIndex | None = None,
        n_best: int | None = None,
        **search_overrides: Any,
    ) -> list[RetrievalResult]:
        """Retrieve images for each text, in order; a result does not depend on the other texts.

        Args:
            texts: query texts.
            index: the images, as returned by `index`. Call `index` again after training; the
                encodings depend on the model's weights.
            n_best: number of images to retrieve, by default `search.n_best`; the best one has the
                others as `alternatives`. An index with fewer images returns all of them.
            **search_overrides: `batch_size` for this call.

        Raises:
            ValueError: if there is no index, a text has no tokens, or an option is unknown.
        """
        if isinstance(texts, str):
            raise ValueError("predict takes a list of texts; write predict([text], index=index)")
        index = self._check_index(index)
        options = self.search.override(**search_overrides)
        count = options.n_best if n_best is None else n_best
        whole_number("n_best", count)
        encoded = self._ids(texts)
        found: dict[int, RetrievalResult] = {}
        for rows, given in self._groups(encoded, options.batch_size):
            alike = self._similarities(index.regions, given)
            best = np.argsort(-alike, axis=0, kind="stable")[:count]
            attention = [self._attention_weights(index.regions[one], given) for one in best]
            for at, row in enumerate(rows):
                one, *others = (
                    self._make_result(
                        texts[row], encoded[row], index, number, alike[number, at], weights
                    )
                    for number, weights in zip(best[:, at], (x[at] for x in attention), strict=True)
                )
                found[row] = replace(one, alternatives=tuple(others))
        return [found[row] for row in range(len(texts))]

    def similarities(self, index: ImageIndex, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute similarities `(I, N)` of all I images of an index with N texts."""
        alike = np.zeros((len(index), len(texts)), np.float32)
        for rows, given in self._groups(self._ids(texts), self.search.batch_size):
            alike[:, rows] = self._similarities(index.regions, given)
        return alike

    def check_sources(self, sources: Sequence[str], locations: Sequence[str] | None = None) -> None:
        """Raise ValueError for a text without tokens; see `Task.check_sources`."""
        self._ids(sources, locations)

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return unknown_characters(self.tokenizer, text)

    def _check_index(self, index: ImageIndex | None) -> ImageIndex:
        if index is None:
            raise ValueError(
                "retrieval needs an index of images, got None; call task.predict(texts,"
                " index=task.index(images)), or pass --images to attention-zoo predict"
            )
        if not isinstance(index, ImageIndex):
            raise ValueError(
                f"index must be the result of task.index(images), got a {type(index).__name__}"
            )
        return index

    def _ids(self, texts: Sequence[str], locations: Sequence[str] | None = None) -> list[Tokens]:
        """Return the token ids of texts; raise ValueError for a text without tokens."""
        encoded = self.tokenizer.encode(list(texts))
        for row, ids in enumerate(encoded):
            if not ids:
                location = locations[row] if locations else f"text {row}"
                raise ValueError(
                    f"{location} has no tokens, got {texts[row]!r}; remove it or add a word"
                )
        return encoded

    def _regions(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        """Encode images as region features `(N, S, D)`."""
        size = self.search.batch_size
        parts = [
            self.model.encode_images(images[begin : begin + size])
            for begin in range(0, len(images), size)
        ]
        return np.concatenate([ops.convert_to_numpy(at_least_float32(x)) for x in parts])

    def _groups(self, encoded: Sequence[Tokens], size: int) -> Iterator[tuple[list[int], Any]]:
        """Yield batches of texts with equal padded width: their row numbers and encodings."""
        for rows, width in same_width(encoded, size):
            ids = padded([encoded[row] for row in rows], len(rows), width)
            yield rows, self.model.encode_texts(ops.convert_to_tensor(ids))

    def _similarities(self, regions: NDArray[np.floating], given: Any) -> NDArray[np.floating]:
        alike = self.model.similarities(ops.convert_to_tensor(regions), given)
        found: NDArray[np.floating] = ops.convert_to_numpy(alike)
        return found

    def _attention_weights(self, regions: NDArray[np.floating], given: Any) -> NDArray[np.floating]:
        """Return attention weights `(B, T, S)` of each text over the regions in its row."""
        weights = self.model.encoded_attention_weights(ops.convert_to_tensor(regions), given)
        found: NDArray[np.floating] = ops.convert_to_numpy(ops.cast(weights, "float32"))
        return found

    def _make_result(
        self, text: str, ids: Tokens, index: ImageIndex, number: int, score: float, weights: Any
    ) -> RetrievalResult:
        """Return the result for an image and a text; `weights` is `(T, S)`."""
        image, labels = index.images[number], tuple(self.tokenizer.tokens(ids))
        grid = self.model.grid_shape((1, *image.shape))
        return RetrievalResult(
            text=index.names[number],
            score=float(score),
            number=int(number),
            source=text,
            source_tokens=labels,
            tokens=labels,
            attention=weights[: len(ids)].reshape(-1, *grid),
            image=image,
            unknown=tuple(at for at, one in enumerate(ids) if one == self.tokenizer.unknown),
        )

    def predict_example(self, examples: CaptionedImages, row: int) -> tuple[RetrievalResult, str]:
        """Return the result for an image's first caption, and a line with the retrieved names."""
        text = examples.captions[row][0]
        (result,) = self.predict([text], index=self.index(examples), n_best=2)
        names = [result.text, *(other.text for other in result.alternatives)]
        return result, f'"{text}" -> {", then ".join(names)} of {len(examples)}'

    # Evaluation.

    def evaluate(self, examples: CaptionedImages, **search_overrides: Any) -> dict[str, Any]:
        """Compute recall at 1, 5 and 10 of images by caption and of captions by image.

        All captions are evaluated, including those longer than `max_target_length`. Two images with
        the same caption get the same ranking, so at most one of them is correct at rank 1.

        Returns:
            `images`, `texts`, `image_recall1`, `image_recall5` and `image_recall10` (text queries,
            in percent), `text_recall1`, `text_recall5` and `text_recall10` (image queries; any text
            of the image is correct), `recall_sum` (sum of the six, used for model selection in Lee
            et al. 2018), `image_median_rank` and `text_median_rank`. If the corpus has boxes, also
            `mass_in_boxes`, the mean attention mass inside the box of the object that a word names,
            and `area_of_boxes`, the same for uniform attention.
        """
        self.search.override(**search_overrides)
        owner, texts = flatten_captions(examples)
        index = self.index(examples)
        found = recall_at_k(self.similarities(index, texts), owner, FIRST)
        recalls = {
            f"{side}_recall{k}": share
            for side, shares in (("image", found.image), ("text", found.text))
            for k, share in shares.items()
        }
        report = {
            "images": len(examples),
            "texts": len(texts),
            **recalls,
            "recall_sum": sum(recalls.values()),
            "image_median_rank": found.image_median_rank,
            "text_median_rank": found.text_median_rank,
        }
        if examples.boxes is None:
            return report
        return {**report, **self._inside(index, owner, texts, examples.boxes)}

    def _inside(
        self, index: ImageIndex, owner: Sequence[int], texts: Sequence[str], boxes: Sequence[Any]
    ) -> dict[str, float]:
        """Compute the mean attention mass inside the boxes of the objects that words name."""
        attention, words, known = [], [], []
        encoded, which = self._ids(texts), np.asarray(owner)
        grid = self.model.grid_shape((1, *index.images.shape[1:]))
        for rows, given in self._groups(encoded, self.search.batch_size):
            for row, weights in zip(
                rows, self._attention_weights(index.regions[which[rows]], given), strict=True
            ):
                weights = weights[: len(encoded[row])]
                share = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-9)
                attention.append(share.reshape(-1, *grid))
                words.append(self.tokenizer.tokens(encoded[row]))
                known.append(boxes[owner[row]])
        inside = mass_in_boxes(attention, words, known)
        if not inside.words:
            return {}
        return {"mass_in_boxes": inside.mass, "area_of_boxes": inside.area}

    # Reports and export.

    def plot(self, result: RetrievalResult, path: str | Path | None = None) -> Any:
        """Return a figure of the retrieved image for each word, shaded by attention."""
        from attention_zoo import inspection

        return inspection.plot_word_regions(result, path)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the retriever as a `tf.Module` that takes encoded images and texts."""
        from attention_zoo.tasks.retrieval.export import ServedRetrieval

        refuse_rules(rules, self.name)
        return ServedRetrieval(self)
