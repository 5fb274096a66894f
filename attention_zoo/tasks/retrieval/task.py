"""Retrieval: find images by text, and texts by image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import CaptionedImages
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.metrics import recall_at_k
from attention_zoo.ops import at_least_float32
from attention_zoo.tasks.image_texts import ImageTextTask, Tokens, flatten_captions, score_boxes
from attention_zoo.tasks.images import Image, list_images, name_images
from attention_zoo.tasks.inputs import (
    Input,
    Locations,
    add_locations,
    check_text,
    list_argument,
    list_inputs,
    name_rows,
    predict_rows,
    refuse_rules,
)
from attention_zoo.tasks.progress import report_predicted
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import check_plottable, rank_results
from attention_zoo.tasks.retrieval.result import ImageIndex, RetrievalResult
from attention_zoo.tasks.text_inputs import (
    find_unknown,
    find_unknown_characters,
    group_by_width,
    pad_batch,
)

RECALL_KS = (1, 5, 10)
"""The k of recall at k."""

NAN_FEATURES = (
    "the model returned NaN features; load an earlier checkpoint, and build the index again"
)


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
    used_search_options = ("n_best", "batch_size")
    evaluation_search_options = ("batch_size",)
    result_class = RetrievalResult
    card_metrics: ClassVar[Mapping[str, str]] = {
        "images": "images",
        "texts": "texts",
        "image_recall1 / image_recall5 / image_recall10": "image retrieval, R@1 / 5 / 10",
        "text_recall1 / text_recall5 / text_recall10": "text retrieval, R@1 / 5 / 10",
        "mass_in_boxes": "attention mass in boxes",
        "area_of_boxes": "box area (uniform attention)",
    }
    model_class = models.CrossAttentionRetriever

    # Training.

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the model's loss: triplet loss with hardest in-batch negatives.

        Raises:
            ValueError: if `label_smoothing` is not 0; there are no labels to smooth.
        """
        if label_smoothing:
            raise ValueError(
                f"training.label_smoothing={label_smoothing}: retrieval has no labels to smooth;"
                " remove it from the recipe"
            )
        loss: keras.losses.Loss = self.model.make_loss()
        return loss

    # Prediction.

    def build_index(
        self, images: Iterable[Image] | CaptionedImages, names: Iterable[str] | None = None
    ) -> ImageIndex:
        """Encode images for `predict`, with the current weights of the model.

        Args:
            images: paths, encoded images, Pillow images or arrays `(H, W, 3)`, see
                `data.read_image`; or a corpus.
            names: name of each image. By default those of the corpus, or the image's path, or
                "image" and its number from 0.

        Raises:
            ValueError: if `images` is empty, an image is invalid, or the number of names differs.
        """
        if isinstance(images, CaptionedImages):
            names, images = images.names if names is None else names, list(images.images)
        images = list_images(images, "build_index")
        if not images:
            raise ValueError("images is empty; give at least one image")
        return self._make_index(images, names, self.search.batch_size)

    def _make_index(
        self, images: list[Image], names: Iterable[str] | None, batch_size: int
    ) -> ImageIndex:
        """Return the index of the images, with these names or default names; see `build_index`."""
        default_names = name_images(images)
        names = default_names if names is None else list_argument("names", names, "strings")
        if len(names) != len(images):
            raise ValueError(f"{len(images)} images but {len(names)} names; give one for each")
        stack = self._read_images(images, default_names)
        return ImageIndex(tuple(names), stack, self._encode_images(stack, batch_size))

    def predict(
        self,
        texts: Iterable[str],
        *,
        index: ImageIndex | None = None,
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[RetrievalResult]:
        """Retrieve images for each text, in order; a result does not depend on the other texts.

        Args:
            texts: query texts.
            index: the images, as returned by `build_index`. Encode them again after training.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: for this call, `batch_size` and `n_best`, the number of images to
                retrieve (at most that of the index); the best one has the others as
                `alternatives`.

        Raises:
            ValueError: if there is no index, a text has no tokens, or an option is unknown.
        """
        texts = list_inputs(texts, "text")
        if not isinstance(index, ImageIndex):
            raise ValueError(
                "index must be the result of task.build_index(images), got"
                f" {type(index).__name__}; call predict(texts, index=task.build_index(images)), or"
                " pass --images to attention-zoo predict"
            )
        options = self.override_search(**search_overrides)

        def prepare(rows: list[int]) -> list[Tokens]:
            return self._encode_texts([texts[row] for row in rows], name_rows(rows, "text"))

        def retrieve(rows: list[int], ids: list[Tokens]) -> list[RetrievalResult]:
            found = self._retrieve([texts[row] for row in rows], ids, index, options)
            results = dict(found)
            return [results[row] for row in range(len(rows))]

        names = name_rows(range(len(texts)), "text")
        return predict_rows(len(texts), on_error, self.result_class, prepare, retrieve, names)

    def name_input(self, number: int, value: Any) -> str:
        """Return the number of a text; see `Task.name_input`."""
        return f"text {number}"

    def _retrieve(
        self,
        texts: Sequence[str],
        ids: Sequence[Tokens],
        index: ImageIndex,
        options: SearchOptions,
    ) -> Iterator[tuple[int, RetrievalResult]]:
        """Yield the row and the result of each text, encoded as `ids`.

        Images with NaN features are not retrieved.
        """
        valid = np.flatnonzero(~np.isnan(index.regions).any(axis=(1, 2)))
        for rows, encoded in self._encode_groups(ids, options.batch_size):
            scores = np.full((len(index), len(rows)), -np.inf)
            if len(valid):
                scores[valid] = self._similarities(index.regions[valid], encoded)
            best = np.argsort(-scores, axis=0, kind="stable")[: min(options.n_best, len(valid))]
            attention = [self._attention_weights(index.regions[n], encoded) for n in best]
            is_nan = _find_nan(encoded)
            for i, row in enumerate(rows):
                if is_nan[i] or not len(valid):
                    yield row, RetrievalResult.failed(NAN_FEATURES)
                    continue
                retrieved = (
                    self._make_result(texts[row], ids[row], index, n, scores[n, i], weights[i])
                    for n, weights in zip(best[:, i], attention, strict=True)
                )
                yield row, rank_results(RetrievalResult, retrieved)
            report_predicted(len(rows))

    def similarities(self, index: ImageIndex, texts: Iterable[str]) -> NDArray[np.float32]:
        """Compute similarities `(I, N)` of all I images of an index with N texts."""
        texts = list_inputs(texts, "text", "similarities")
        return self._compute_similarities(index, texts, self.search.batch_size)

    def _compute_similarities(
        self, index: ImageIndex, texts: Sequence[str], batch_size: int
    ) -> NDArray[np.float32]:
        scores = np.zeros((len(index), len(texts)), np.float32)
        ids = self._encode_texts(texts)
        for rows, encoded in self._encode_groups(ids, batch_size):
            scores[:, rows] = self._similarities(index.regions, encoded)
        return scores

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text without tokens; see `Task.check_sources`."""
        self._encode_texts(sources, locations)

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return find_unknown_characters(self.tokenizer, text)

    def _encode_texts(self, texts: Sequence[str], locations: Locations = None) -> list[Tokens]:
        """Return the token ids of texts; raise ValueError for a text without tokens."""
        texts = [check_text(*pair) for pair in add_locations(texts, locations, "text")]
        encoded = self.tokenizer.encode(texts)
        for (location, text), ids in zip(
            add_locations(texts, locations, "text"), encoded, strict=True
        ):
            if not ids:
                raise ValueError(f"{location}: has no words, got {text!r}; write at least one word")
        return encoded

    def _encode_images(self, images: NDArray[np.uint8], batch_size: int) -> NDArray[np.floating]:
        """Encode images as region features `(N, S, D)`."""
        starts = range(batch_size, len(images), batch_size)
        parts = map(self.model.encode_images, np.split(images, starts))
        return np.concatenate([ops.convert_to_numpy(at_least_float32(x)) for x in parts])

    def _encode_groups(self, ids: Sequence[Tokens], size: int) -> Iterator[tuple[list[int], Any]]:
        """Yield row numbers of texts with equal padded width, and the encoded texts."""
        for rows, width in group_by_width(ids, size):
            batch = pad_batch([ids[row] for row in rows], len(rows), width)
            yield rows, self.model.encode_texts(ops.convert_to_tensor(batch))

    def _similarities(self, regions: NDArray[np.floating], texts: Any) -> NDArray[np.floating]:
        scores = self.model.similarities(ops.convert_to_tensor(regions), texts)
        return np.asarray(ops.convert_to_numpy(scores))

    def _attention_weights(self, regions: NDArray[np.floating], texts: Any) -> NDArray[np.floating]:
        """Return attention weights `(B, T, S)` of each text over the regions in its row."""
        weights = self.model.encoded_attention_weights(ops.convert_to_tensor(regions), texts)
        return np.asarray(ops.convert_to_numpy(ops.cast(weights, "float32")))

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
            attention=weights[: len(ids)].reshape(-1, *grid).copy(),
            image=image,
            unknown=find_unknown(ids, self.tokenizer.unknown),
        )

    def predict_example(self, examples: CaptionedImages, row: int) -> tuple[RetrievalResult, str]:
        """Return the result for an image's first caption, and a line with the retrieved names."""
        text = examples.captions[row][0]
        (result,) = self.predict([text], index=self.build_index(examples), n_best=2)
        names = [result.text, *(other.text for other in result.alternatives)]
        return result, f'"{text}" -> {", then ".join(names)} of {len(examples)}'

    # Evaluation.

    def evaluate(self, examples: CaptionedImages, **search_overrides: Any) -> dict[str, Any]:
        """Compute recall at 1, 5 and 10 of images by caption and of captions by image.

        All captions are evaluated, including those longer than `max_target_length`. Two images with
        the same caption get the same ranking, so at most one of them is correct at rank 1. Of the
        search options, only `batch_size` may be given.

        Returns:
            `images`, `texts`, `image_recall1`, `image_recall5` and `image_recall10` (text queries,
            in percent), `text_recall1`, `text_recall5` and `text_recall10` (image queries; any text
            of the image is correct), `recall_sum` (sum of the six, used for model selection in Lee
            et al. 2018), `image_median_rank` and `text_median_rank`. If the corpus has boxes, also
            `mass_in_boxes`, the mean attention mass inside the box of the object that a word names,
            and `area_of_boxes`, the same for uniform attention.
        """
        batch_size = self.read_batch_size(**search_overrides)
        owner, texts = flatten_captions(examples)
        index = self._make_index(list(examples.images), examples.names, batch_size)
        similarities = self._compute_similarities(index, texts, batch_size)
        recall = recall_at_k(similarities, owner, RECALL_KS)
        recalls = {f"image_recall{k}": share for k, share in recall.image.items()}
        recalls |= {f"text_recall{k}": share for k, share in recall.text.items()}
        report = {
            "images": len(examples),
            "texts": len(texts),
            **recalls,
            "recall_sum": sum(recalls.values()),
            "image_median_rank": recall.image_median_rank,
            "text_median_rank": recall.text_median_rank,
        }
        if examples.boxes is None:
            return report
        return report | self._score_boxes(index, owner, texts, examples.boxes, batch_size)

    def _score_boxes(
        self,
        index: ImageIndex,
        owner: Sequence[int],
        texts: Sequence[str],
        boxes: Sequence[Any],
        batch_size: int,
    ) -> dict[str, float]:
        """Compute `score_boxes` with the attention of each caption over its own image."""
        attention, words, known = [], [], []
        ids = self._encode_texts(texts)
        grid = self.model.grid_shape((1, *index.images.shape[1:]))
        for rows, encoded in self._encode_groups(ids, batch_size):
            images = [owner[row] for row in rows]
            batch = self._attention_weights(index.regions[images], encoded)
            for row, image, weights in zip(rows, images, batch, strict=True):
                weights = weights[: len(ids[row])]
                share = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-9)
                attention.append(share.reshape(-1, *grid))
                words.append(self.tokenizer.tokens(ids[row]))
                known.append(boxes[image])
        return score_boxes(attention, words, known)

    # Reports and export.

    def plot(self, result: RetrievalResult, path: str | Path | None = None) -> Any:
        """Return a figure of the retrieved image for each word, shaded by attention."""
        from attention_zoo import inspection

        check_plottable(result)
        return inspection.plot_word_regions(result, path)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the retriever as a `tf.Module` that takes encoded images and texts."""
        from attention_zoo.tasks.retrieval.export import RetrievalModule

        refuse_rules(rules, self.name)
        return RetrievalModule(self)


def _find_nan(texts: Any) -> NDArray[np.bool_]:
    """Return whether each encoded text has NaN features, `(B,)`.

    Its similarities may not be NaN then.
    """
    words, mask = texts
    is_nan = ops.logical_and(ops.isnan(words), mask[..., None])
    return np.asarray(ops.convert_to_numpy(ops.any(is_nan, axis=(1, 2))))
