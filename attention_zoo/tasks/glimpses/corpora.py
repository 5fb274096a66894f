"""Corpora of images with class labels."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from attention_zoo.data import (
    LabelledImages,
    clutter_digits,
    generate_digits,
    read_class_folders,
    read_labelled_tfds,
    read_npz_images,
    translate_digits,
)
from attention_zoo.data.images.labelled_images import list_npz_arrays
from attention_zoo.ops import whole_number
from attention_zoo.registry import Registry
from attention_zoo.tasks.corpora import Corpus, FileCorpus, GeneratedCorpus, TfdsCorpus

LABELLED_IMAGES = Registry("data.corpus")
SCATTERED = Registry("data.scattered")
"""Placement of images on a larger black square: `f(images, labels, size, seed)` by name."""

TRAIN = "train"
ARRAY_NAMES = {"validation": ("validation", "val", "valid", "dev"), "test": ("test",)}
"""What stands for "train" in the names of another split's arrays."""

SCATTERED.register("nowhere")(lambda images, labels, size, seed: (images, labels))
SCATTERED.register("translated")(translate_digits)
SCATTERED.register("cluttered")(
    lambda images, labels, size, seed: clutter_digits(images, labels, size, seed=seed)
)


@dataclass
class LabelledImageCorpus(Corpus):
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
        source, origin, size = self._images(split), "", self.image_size
        place = SCATTERED.get(self.scattered)
        seed = 3 * self.seed + self.splits.index(split)
        rows = np.tile(np.arange(len(source)), self.copies if split == "train" else 1)
        images, labels = place(source.images[rows], source.labels[rows], size, seed)
        names = [source.names[row] for row in rows]
        if self.scattered != "nowhere":
            origin = f", {self.scattered} on {size} x {size}, seed {self.seed}"
        origin = f"{source.origin}{origin}"
        placed = replace(source, images=images, labels=labels, names=names, origin=origin)
        return placed.resize(size)

    @property
    def read_size(self) -> int | None:
        """Size that images are resized to when read; None keeps their size for placement."""
        return self.image_size if self.scattered == "nowhere" else None

    @abstractmethod
    def _images(self, split: str) -> LabelledImages:
        """Return the images of a split, all of one size, before placement."""


@LABELLED_IMAGES.register("digits")
@dataclass
class GeneratedDigits(GeneratedCorpus, LabelledImageCorpus):
    """Generated corpus of digits; see `data.generate_digits`. `seed` also seeds the generator."""

    corpus: str = "digits"
    size: int = 20000
    validation_size: int = 1000
    test_size: int = 2000

    def _images(self, split: str) -> LabelledImages:
        images, labels = generate_digits(self.size_of(split), split, self.seed)
        names = [str(number) for number in range(1, len(images) + 1)]
        classes = [str(digit) for digit in range(10)]
        origin = f"digits {split}, seed {self.seed}"
        return LabelledImages(images, labels.astype("int32"), classes, names, origin)


@LABELLED_IMAGES.register("npz")
@dataclass
class Arrays(FileCorpus, LabelledImageCorpus):
    """Arrays of images and labels in `.npz` files; see `data.read_npz_images`.

    Args:
        images, labels: names of the arrays. "train" in a name stands for the split: the test split
            is read from "x_test", the validation split from "x_validation" or "x_val", in lower or
            upper case.
        held_out: without a validation file, the number of last images of `train` that are held out
            as the validation split.
    """

    corpus: str = "npz"
    images: str = "x_train"
    labels: str = "y_train"
    held_out: int = 0

    def _images(self, split: str) -> LabelledImages:
        is_divided = split in ("train", "validation") and not self.validation
        if is_divided and self.held_out:
            return self._divide(split)
        path = self.find_file(split)
        images, labels = self._find_arrays(path, split)
        examples = read_npz_images(path, images, labels)
        if split == "train":
            return examples
        return replace(examples, origin=f"{examples.origin}, arrays {images} and {labels}")

    def _divide(self, split: str) -> LabelledImages:
        """Return the images of `train` that are not held out, or those that are."""
        images = read_npz_images(self.find_file("train"), self.images, self.labels)
        if not 0 < self.held_out < len(images):
            raise ValueError(
                "data.held_out must be at least 1 and below the number of images, got"
                f" {self.held_out} of {len(images)} images of data.train"
            )
        begin = len(images) - self.held_out
        rows = range(begin) if split == "train" else range(begin, len(images))
        origin = f"{images.origin}, images {rows.start + 1} to {rows.stop}"
        return replace(images.take(rows), origin=origin)

    def _find_arrays(self, path: str, split: str) -> tuple[str, str]:
        """Return the names of the arrays of a split, so that no other split is read in its place.

        Raises ValueError if the file has only those of another split.
        """
        own_arrays = self.images, self.labels
        if split == "train":
            return own_arrays
        if not any(TRAIN in name.lower() for name in own_arrays):
            self._refuse_arrays_of_another_split(path, split, own_arrays)
            return own_arrays
        candidates = [
            tuple(
                re.sub(TRAIN, partial(_copy_case, name), array, flags=re.IGNORECASE)
                for array in own_arrays
            )
            for name in ARRAY_NAMES[split]
        ]
        known = list_npz_arrays(path)
        array_names = {name.lower(): name for name in known} | {name: name for name in known}
        for names in candidates:
            images, labels = (
                array_names.get(name, array_names.get(name.lower())) for name in names
            )
            if images is not None and labels is not None:
                self._refuse_arrays_of_another_split(path, split, (images, labels))
                return images, labels
        raise ValueError(
            f"{path}: has no arrays {' and '.join(candidates[0])} of the {split} split (arrays:"
            f" {', '.join(known)}); rename its arrays, or set data.images and data.labels to names"
            f" without {TRAIN!r}"
        )

    def _refuse_arrays_of_another_split(
        self, path: str, split: str, names: tuple[str, str]
    ) -> None:
        """Raise ValueError if another split is read from one of these arrays of the same file."""
        shared = [name for name in names if name in (self.images, self.labels)]
        for other in self.splits if shared else ():
            paths = self.get_paths(other) if other != split and vars(self)[other] else []
            if os.path.realpath(path) in map(os.path.realpath, paths):
                raise ValueError(
                    f"{path}: arrays {' and '.join(shared)} are also read as the {other} split;"
                    f" give the {split} split another file, or rename the arrays of each split to"
                    " x_train, y_train, x_test and so on"
                )


def _copy_case(text: str, match: re.Match[str]) -> str:
    """Return the text in upper case or capitalized if the match is; otherwise unchanged."""
    if match[0].isupper():
        return text.upper()
    return text.capitalize() if match[0][0].isupper() else text


@LABELLED_IMAGES.register("classes")
@dataclass
class ClassFolders(FileCorpus, LabelledImageCorpus):
    """One folder or zip file per split, with a folder of images for each class.

    Args:
        skip_bad: maximum number of bad images to skip; one more is an error.
    """

    corpus: str = "classes"
    image_size: int = 224
    skip_bad: int = 0

    def _images(self, split: str) -> LabelledImages:
        return read_class_folders(self.find_file(split), self.read_size, self.skip_bad)


@LABELLED_IMAGES.register("classes_tfds")
@dataclass
class LabelledTfds(TfdsCorpus, LabelledImageCorpus):
    """Prepared TensorFlow dataset (TFDS) of labelled images; see `data.read_labelled_tfds`.

    Args:
        image, label: names of its features.
        skip_bad: maximum number of bad rows to skip; one more is an error.
    """

    corpus: str = "classes_tfds"
    train: str | None = "train[:90%]"
    validation: str | None = "train[90%:]"
    name: str = "mnist"
    image: str = "image"
    label: str = "label"
    skip_bad: int = 0

    def _images(self, split: str) -> LabelledImages:
        names = self.name, self.split_name(split), self.image, self.label
        return read_labelled_tfds(*names, self.read_size, self.folder, self.skip_bad)
