"""Captioning: describe an image in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import (
    CaptionBatches,
    CaptionedImages,
    read_image,
)
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.metrics import caption_scores, exact_match, mass_in_boxes
from attention_zoo.tasks.base import TASKS, Input, rules_for_all
from attention_zoo.tasks.captioning.result import Caption
from attention_zoo.tasks.image_texts import Image, ImageTextTask, is_single_image


@TASKS.register("captioning")
class Captioning(ImageTextTask):
    """Image captioning: a captioner and its tokenizer.

    Args:
        model: a `models.Captioner`.
        tokenizer: `data.Tokenizer` with the model's vocabulary.
        search: default search options of `predict`. Without a `max_length`, the limit is
            `max_target_length`.
        image_size: every image is resized to a square with this side, in pixels.
        max_target_length: maximum number of tokens of a caption, end token included. Training drops
            longer captions.

    Raises:
        ValueError: if the model is not a captioner, its vocabulary size is not the tokenizer's, or
            its encoder does not take RGB images of `image_size`.
    """

    name: ClassVar[str] = "captioning"
    metric_names: ClassVar[tuple[str, ...]] = ("bleu4", "cider", "rouge_l", "exact_match")
    inputs: ClassVar[tuple[Input, ...]] = (Input("images", "image"),)
    card_metrics: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "images": "images",
        "bleu4": "BLEU-4",
        "cider": "CIDEr-D",
        "rouge_l": "ROUGE-L",
        "exact_match": "exact match, %",
        "mass_in_boxes": "attention mass in boxes",
        "area_of_boxes": "box area (uniform attention)",
    }
    batch_class = CaptionBatches
    num_end_tokens = 1
    model_class = models.Captioner
    model_error = "model must be a models.Captioner, such as models.ShowAttendTell"

    # Training.

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss per token."""
        return SequenceCrossEntropy(label_smoothing=label_smoothing)

    # Prediction.

    def predict(
        self,
        images: Sequence[Image] | NDArray[np.uint8],
        *,
        rules: Sequence[Rule] = (),
        **search_overrides: Any,
    ) -> list[Caption]:
        """Caption each image, in order; a result does not depend on the other images.

        Args:
            images: paths, encoded images or arrays `(H, W, 3)`, see `data.read_image`; or one array
                `(N, H, W, 3)`.
            rules: additional decoding rules (`decoding.Rule`), the same for all images.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if an image cannot be read, an option is unknown or conflicts with another,
                or the search finds no caption.
        """
        if is_single_image(images):
            raise ValueError("predict takes a list of images; write predict([image])")
        rules = rules_for_all(rules)
        options = self.search_options(**search_overrides)
        names = [
            None if isinstance(one, str | Path) else f"image {row}"
            for row, one in enumerate(images)
        ]
        answers: list[Caption] = []
        for start in range(0, len(images), options.batch_size):
            part = slice(start, start + options.batch_size)
            read = [
                read_image(one, self.image_size, where)
                for one, where in zip(images[part], names[part], strict=True)
            ]
            for row, answer in enumerate(self._search(np.stack(read), options, rules), start):
                if answer is None:
                    raise ValueError(
                        f"image {row}: the search found no caption; relax the search options"
                    )
                answers.append(answer)
        return answers

    def search_options(self, **changes: Any) -> SearchOptions:
        """Return the search options with overrides, and with a length limit in any case."""
        options = self.search.override(**changes)
        if options.max_length is None and options.max_length_ratio is None:
            return options.override(max_length=self.max_target_length)
        return options

    def check_sources(self, sources: Sequence[str], locations: Sequence[str] | None = None) -> None:
        """Raise ValueError for an image file that `predict` rejects; see `Task.check_sources`."""
        for row, path in enumerate(sources):
            location = locations[row] if locations else f"image {row}"
            if not path:
                raise ValueError(f"{location}: is empty; give the path of an image")
            read_image(path, self.image_size, f"{location}: {path}")

    def _search(
        self, images: NDArray[np.uint8], options: SearchOptions, rules: Sequence[Rule]
    ) -> Iterator[Caption | None]:
        """Yield the caption of each image, or None if the search finds none."""
        size = min(options.batch_size, 2 ** (len(images) - 1).bit_length())
        filled = np.concatenate([images, np.repeat(images[:1], size - len(images), axis=0)])
        result = self.model.compiled_search(filled, options, rules=rules)
        for row in range(len(images)):
            answers = [
                self._answer(images[row], result, (row, n))
                for n, length in enumerate(result.lengths[row])
                if length  # 0 if the search found fewer than `n_best`
            ]
            yield replace(answers[0], alternatives=tuple(answers[1:])) if answers else None

    def _answer(
        self, image: NDArray[np.uint8], result: SearchResult, at: tuple[int, int]
    ) -> Caption:
        """Return the caption at index (row, rank) of the search result."""
        length, finished = int(result.lengths[at]), bool(result.finished[at])
        ids = [int(token) for token in result.tokens[at][: length - finished]]
        grid = self.model.grid_shape((1, *image.shape))
        grid_weights = result.attention[at][: len(ids)].reshape(-1, *grid)
        return Caption(
            text=self.tokenizer.decode(ids),
            score=float(result.scores[at]),
            tokens=tuple(self.tokenizer.tokens(ids)),
            token_scores=tuple(map(float, result.token_scores[at][:length])),
            attention=None if grid == (1, 1) else grid_weights,
            truncated=not finished,
            image=image,
        )

    def predict_example(self, examples: CaptionedImages, row: int) -> tuple[Caption, str]:
        """Return the caption of one image, and its first reference beside the prediction."""
        (result,) = self.predict([examples.images[row]])
        return result, f'"{examples.captions[row][0]}" -> "{result.text}"'

    # Evaluation.

    def evaluate(self, examples: CaptionedImages, **search_overrides: Any) -> dict[str, Any]:
        """Compute caption metrics on `examples` and the attention inside annotated boxes.

        Returns:
            `images`, the scores of `metrics.caption_scores`, `exact_match` with any caption of the
            image, and `truncated` (captions without an end token). With boxes, spatial attention
            and at least one word that names an object with a box, also `mass_in_boxes`, the mean
            attention mass inside the box of the object that a word names, and `area_of_boxes`, the
            same for uniform attention.
        """
        answers = self.predict(list(examples.images), **search_overrides)
        texts = [answer.text for answer in answers]
        scores = caption_scores(texts, examples.captions)
        report = {
            "images": len(answers),
            **scores._asdict(),
            "exact_match": exact_match(texts, self._spelt(examples.captions)),
            "truncated": sum(answer.truncated for answer in answers),
        }
        attention_weights = [answer.attention for answer in answers if answer.attention is not None]
        if examples.boxes is None or len(attention_weights) < len(answers):
            return report
        inside = mass_in_boxes(
            attention_weights, [answer.tokens for answer in answers], examples.boxes
        )
        if not inside.words:
            return report
        return {**report, "mass_in_boxes": inside.mass, "area_of_boxes": inside.area}

    def _spelt(self, captions: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return captions as decoded by the tokenizer, with their unknown words kept."""

        def spelt(text: str) -> str:
            (ids,), pieces = self.tokenizer.encode([text]), self.tokenizer.surfaces(text)
            pairs = zip(ids, pieces, strict=True)
            return self.tokenizer.decode(ids, [piece for id_, piece in pairs if id_ == UNKNOWN])

        return [tuple(map(spelt, texts)) for texts in captions]

    # Reports and export.

    def plot(self, result: Caption, path: str | Path | None = None) -> Any:
        """Return a figure of the image for each word, shaded by attention; see `Task.plot`."""
        from attention_zoo import inspection

        weights = result.image, result.attention, result.tokens
        return inspection.plot_caption_overlay(*weights, path, title=result.text)

    def write_report(self, results: Sequence[Caption], path: str | Path) -> None:
        """Write images beside their captions, with the attention of each word, as an HTML page."""
        from attention_zoo import inspection

        inspection.write_caption_page(results, path)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the captioner as a `tf.Module` that takes encoded images."""
        from attention_zoo.tasks.captioning.export import ServedCaptioning

        return ServedCaptioning(self, rules_for_all(rules))
