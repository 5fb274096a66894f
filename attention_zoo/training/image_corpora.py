"""Corpora of images: with captions, or with class labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from attention_zoo.data import (
    CaptionedImages,
    LabelledImages,
    clutter_digits,
    generate_digits,
    generate_scenes,
    read_caption_tfds,
    read_captions,
    read_class_folders,
    read_coco,
    read_labelled_tfds,
    read_npz_images,
    translate_digits,
)
from attention_zoo.ops import whole_number
from attention_zoo.registry import Registry
from attention_zoo.training.corpora import CORPORA, Corpus, Files


@dataclass
class Captions(Corpus):
    """Base class of corpora of captioned images.

    Args:
        image_size: side in pixels of the square that every image is resized to.
        max_target_length: maximum number of tokens of a caption; training drops longer captions.
    """

    image_size: int = 64
    max_target_length: int = 40

    examples: ClassVar[str] = "images"
    limits: ClassVar[tuple[str, ...]] = ("image_size", "max_target_length")


@CORPORA.register("scenes")
@dataclass
class Scenes(Captions):
    """Generated corpus of images with one to four objects; see `data.generate_scenes`.

    Args:
        size, validation_size, test_size: images per split; `unseen` has `test_size` too.
        seed: seed of the generator.
        min_things, max_things: range of the number of objects in an image.
        max_captions: maximum number of captions per training image, sampled with the seed. Images
            with more objects have more captions and would otherwise be trained on more often.
            Other splits keep all captions.
    """

    corpus: str = "scenes"
    size: int = 10000
    validation_size: int = 200
    test_size: int = 500
    seed: int = 1
    min_things: int = 1
    max_things: int = 4
    max_captions: int = 4

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "unseen")

    def _read(self, split: str) -> CaptionedImages:
        sizes = {"train": self.size, "validation": self.validation_size}
        size = sizes.get(split, self.test_size)
        scenes = generate_scenes(size, split, self.seed, self.min_things, self.max_things)
        sampled = (
            scenes.sample_captions(self.max_captions, self.seed) if split == "train" else scenes
        )
        return sampled.resize(self.image_size)


@dataclass
class CaptionFiles(Files, Captions):
    """Base class of corpora of caption files with folders of images.

    Args:
        train_images, validation_images, test_images: folder or zip file with the images of each
            split; None is the folder of its captions.
        skip_bad: maximum number of bad lines and images to skip; one more is an error.
    """

    train_images: str | None = None
    validation_images: str | None = None
    test_images: str | None = None
    image_size: int = 224
    skip_bad: int = 0

    def _read(self, split: str) -> CaptionedImages:
        captions = self.path(split)
        images = getattr(self, f"{split}_images") or str(Path(captions).parent)
        return self._of(images, captions)

    def _of(self, images: str, captions: str) -> CaptionedImages:
        return read_captions(images, captions, self.image_size, self.skip_bad)


@CORPORA.register("captions")
@dataclass
class CaptionLines(CaptionFiles):
    """JSON Lines files with an image name and its captions per line; see `data.read_captions`."""

    corpus: str = "captions"


@CORPORA.register("coco")
@dataclass
class Coco(CaptionFiles):
    """JSON files in the format of COCO; see `data.read_coco`."""

    corpus: str = "coco"

    def _of(self, images: str, captions: str) -> CaptionedImages:
        return read_coco(images, captions, self.image_size, self.skip_bad)


@CORPORA.register("captions_tfds")
@dataclass
class CaptionsTfds(Files, Captions):
    """Prepared TensorFlow dataset (TFDS) of captioned images; see `data.read_caption_tfds`.

    Args:
        name: name of the dataset, for example coco_captions; train, validation and test are names
            of its splits.
        image, captions: names of its features.
        data_dir: folder of the prepared dataset; None is the default folder of TFDS.
        skip_bad: maximum number of bad rows to skip; one more is an error.
    """

    corpus: str = "captions_tfds"
    train: str | None = "train"
    validation: str | None = "val"
    test: str | None = "test"
    name: str = "coco_captions"
    image: str = "image"
    captions: str = "captions/text"
    image_size: int = 224
    data_dir: str | None = None
    skip_bad: int = 0

    def _read(self, split: str) -> CaptionedImages:
        features = self.image, self.captions, self.image_size
        return read_caption_tfds(
            self.name, self.path(split), *features, self.data_dir, self.skip_bad
        )


SCATTERED = Registry("data.scattered")
"""Placement of images on a larger black square: `f(images, labels, size, seed)` by name."""

SCATTERED.register("nowhere")(lambda images, labels, size, seed: (images, labels))
SCATTERED.register("translated")(translate_digits)
SCATTERED.register("cluttered")(
    lambda images, labels, size, seed: clutter_digits(images, labels, size, seed=seed)
)


@dataclass
class Labelled(Corpus):
    """Base class of corpora of images with class labels.

    Args:
        image_size: side in pixels of the square that images are resized to or placed on.
        scattered: "nowhere" (resized), "translated" (at a random position on a black square of
            `image_size`) or "cluttered" (the same, among pieces of other images).
        copies: copies of each training image, each at another position.
        seed: seed of the positions.
    """

    image_size: int = 28
    scattered: str = "nowhere"
    copies: int = 1
    seed: int = 1

    examples: ClassVar[str] = "images"
    limits: ClassVar[tuple[str, ...]] = ("image_size",)

    def __post_init__(self) -> None:
        SCATTERED.get(self.scattered)
        if whole_number("copies", self.copies) > 1 and self.scattered == "nowhere":
            raise ValueError(
                f"copies={self.copies}: copies are identical with scattered=nowhere; set"
                " scattered=translated or cluttered"
            )
        super().__post_init__()

    def _read(self, split: str) -> LabelledImages:
        found = self._images(split)
        put = SCATTERED.get(self.scattered)
        seed = 3 * self.seed + self.splits.index(split)
        rows = np.tile(np.arange(len(found)), self.copies if split == "train" else 1)
        images, labels = put(found.images[rows], found.labels[rows], self.image_size, seed)
        names = [found.names[row] for row in rows]
        where = "" if self.scattered == "nowhere" else f", {self._told()}"
        origin = f"{found.origin}{where}"
        made = replace(found, images=images, labels=labels, names=names, origin=origin)
        return made.resize(self.image_size)

    def _told(self) -> str:
        """Return a description of how images are placed."""
        return f"{self.scattered} on {self.image_size} x {self.image_size}, seed {self.seed}"

    @property
    def read_size(self) -> int | None:
        """Size that images are resized to when read; None keeps their size for placement."""
        return self.image_size if self.scattered == "nowhere" else None

    def _images(self, split: str) -> Any:
        """Return the images of a split, all of one size, before placement."""
        raise TypeError(f"{type(self).__name__} does not define `_images`")


@CORPORA.register("digits")
@dataclass
class GeneratedDigits(Labelled):
    """Generated corpus of digits; see `data.generate_digits`. `seed` also seeds the generator.

    Args:
        size, validation_size, test_size: images per split.
    """

    corpus: str = "digits"
    size: int = 20000
    validation_size: int = 1000
    test_size: int = 2000

    def _images(self, split: str) -> LabelledImages:
        sizes = {"train": self.size, "validation": self.validation_size}
        images, labels = generate_digits(sizes.get(split, self.test_size), split, self.seed)
        names = [str(number) for number in range(1, len(images) + 1)]
        classes = [str(digit) for digit in range(10)]
        origin = f"digits {split}, seed {self.seed}"
        return LabelledImages(images, labels.astype("int32"), classes, names, origin)


@CORPORA.register("npz")
@dataclass
class Arrays(Files, Labelled):
    """Arrays of images and labels in `.npz` files; see `data.read_npz_images`.

    Args:
        images, labels: names of the arrays.
        held_out: without a validation file, the number of last images of `train` that are held out
            as the validation split.
    """

    corpus: str = "npz"
    images: str = "x_train"
    labels: str = "y_train"
    held_out: int = 0

    def _images(self, split: str) -> LabelledImages:
        cut = split in ("train", "validation") and not self.validation
        if not cut or not self.held_out:
            return read_npz_images(self.path(split), self.images, self.labels)
        whole = read_npz_images(self.path("train"), self.images, self.labels)
        if not 0 < self.held_out < len(whole):
            raise ValueError(
                "data.held_out must be at least 1 and below the number of images, got"
                f" {self.held_out} of {len(whole)} images of data.train"
            )
        begin = len(whole) - self.held_out
        kept = range(begin) if split == "train" else range(begin, len(whole))
        origin = f"{whole.origin}, images {kept.start + 1} to {kept.stop}"
        return replace(whole.take(kept), origin=origin)


@CORPORA.register("classes")
@dataclass
class ClassFolders(Files, Labelled):
    """One folder or zip file per split, with a folder of images for each class.

    Args:
        skip_bad: maximum number of bad images to skip; one more is an error.
    """

    corpus: str = "classes"
    image_size: int = 224
    skip_bad: int = 0

    def _images(self, split: str) -> LabelledImages:
        return read_class_folders(self.path(split), self.read_size, self.skip_bad)


@CORPORA.register("classes_tfds")
@dataclass
class LabelledTfds(Files, Labelled):
    """Prepared TensorFlow dataset (TFDS) of labelled images; see `data.read_labelled_tfds`.

    Args:
        name: name of the dataset, for example mnist; train, validation and test are names of its
            splits.
        image, label: names of its features.
        data_dir: folder of the prepared dataset; None is the default folder of TFDS.
        skip_bad: maximum number of bad rows to skip; one more is an error.
    """

    corpus: str = "classes_tfds"
    train: str | None = "train[:90%]"
    validation: str | None = "train[90%:]"
    test: str | None = "test"
    name: str = "mnist"
    image: str = "image"
    label: str = "label"
    data_dir: str | None = None
    skip_bad: int = 0

    def _images(self, split: str) -> LabelledImages:
        names = self.name, self.path(split), self.image, self.label
        return read_labelled_tfds(*names, self.read_size, self.data_dir, self.skip_bad)
