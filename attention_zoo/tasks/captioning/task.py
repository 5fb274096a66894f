"""Captioning: describe an image in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import CaptionBatches, CaptionedImages
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.decoding import Rule, SearchResult
from attention_zoo.metrics import caption_scores, exact_match
from attention_zoo.tasks.base import SEARCH_OPTIONS
from attention_zoo.tasks.captioning.model_call import CaptioningCallMixin
from attention_zoo.tasks.captioning.result import Caption
from attention_zoo.tasks.generation import GenerationTask, read_hypotheses
from attention_zoo.tasks.image_texts import ImageTextTask, score_boxes
from attention_zoo.tasks.images import Image
from attention_zoo.tasks.inputs import check_rules
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import check_plottable
from attention_zoo.tasks.text_inputs import round_batch_size


@TASKS.register("captioning")
class Captioning(CaptioningCallMixin, GenerationTask, ImageTextTask):
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
    output_noun: ClassVar[str] = "caption"
    result_class = Caption
    used_search_options = tuple(
        name for name in SEARCH_OPTIONS if name not in ("replace_unknown", "no_repeat_source_ngram")
    )
    max_length_attribute: ClassVar[str | None] = "max_target_length"
    metric_modules: ClassVar[tuple[str, ...]] = ("sacrebleu",)
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
    model_example = "ShowAttendTell"

    def _check_limits(self) -> None:
        """Raise ValueError for an unsuitable `image_size` or more tokens than positions."""
        super()._check_limits()
        num_positions = self.model.max_target_length
        if num_positions is not None and self.max_target_length > num_positions:
            raise ValueError(
                f"max_target_length must be at most {num_positions}, the number of positions of the"
                f" model, got {self.max_target_length}; set data.max_target_length={num_positions}"
            )

    # Prediction.

    def get_predict_inputs(self, examples: CaptionedImages) -> Sequence[Image]:
        """Return the images."""
        return list(examples.images)

    def predict(
        self,
        images: Iterable[Image],
        *,
        rules: Sequence[Rule] = (),
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[Caption]:
        """Caption each image, in order; a result does not depend on the other images.

        Args:
            images: paths, encoded images, Pillow images or arrays `(H, W, 3)`, see
                `data.read_image`; or one array `(N, H, W, 3)`.
            rules: additional decoding rules (`decoding.Rule`), the same for all images.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if an image cannot be read, an option is unknown or conflicts with another,
                or the search finds no caption.
        """
        rules = check_rules(rules)
        options = self.search_options(**search_overrides)

        def caption(batch: NDArray[np.uint8]) -> Iterator[Caption]:
            size = round_batch_size(len(batch), options.batch_size)
            filled = np.concatenate([batch, np.repeat(batch[:1], size - len(batch), axis=0)])
            result = self._run_search(filled, options, rules)
            for row, image in enumerate(batch):
                yield self._rank(self._make_results(image, result, row), result.scores[row])

        return self._predict_images(images, options.batch_size, on_error, caption)

    def _make_source(self, size: int, length: int) -> NDArray[np.uint8]:
        """Return a batch of black images."""
        return np.zeros((size, self.image_size, self.image_size, 3), np.uint8)

    def _make_results(
        self, image: NDArray[np.uint8], result: SearchResult, row: int
    ) -> Iterator[Caption]:
        """Yield the captions of one image, from a row of the search result."""
        grid, image = self.model.grid_shape((1, *image.shape)), image.copy()
        for ids, weights, fields in read_hypotheses(result, row):
            if weights is not None:
                weights = None if grid == (1, 1) else weights.reshape(-1, *grid).copy()
            yield Caption(
                text=self.tokenizer.decode(ids),
                tokens=tuple(self.tokenizer.tokens(ids)),
                attention=weights,
                image=image,
                **fields,
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
        results = self.predict(list(examples.images), **search_overrides)
        texts = [result.text for result in results]
        references = [tuple(map(self._normalize, captions)) for captions in examples.captions]
        report = {
            "images": len(results),
            **caption_scores(texts, examples.captions)._asdict(),
            "exact_match": exact_match(texts, references),
            "truncated": sum(result.truncated for result in results),
        }
        weights = [result.attention for result in results if result.attention is not None]
        if examples.boxes is None or len(weights) < len(results):
            return report
        return report | score_boxes(weights, [result.tokens for result in results], examples.boxes)

    def _normalize(self, text: str) -> str:
        """Return a caption as decoded by the tokenizer, with its unknown words kept."""
        (ids,), pieces = self.tokenizer.encode([text]), self.tokenizer.surfaces(text)
        pairs = zip(ids, pieces, strict=True)
        return self.tokenizer.decode(ids, [piece for id_, piece in pairs if id_ == UNKNOWN])

    # Reports and export.

    def plot(self, result: Caption, path: str | Path | None = None) -> Any:
        """Return a figure of the image for each word, shaded by attention; see `Task.plot`."""
        from attention_zoo import inspection

        check_plottable(result)
        weights = result.image, result.attention, result.tokens
        return inspection.plot_caption_overlay(*weights, path, title=result.text)

    def write_report(self, results: Sequence[Caption], path: str | Path) -> None:
        """Write images beside their captions, with the attention of each word, as an HTML page."""
        from attention_zoo import inspection

        inspection.write_caption_page(results, path)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the captioner as a `tf.Module` that takes encoded images."""
        from attention_zoo.tasks.captioning.export import CaptioningModule

        return CaptioningModule(self, check_rules(rules))
