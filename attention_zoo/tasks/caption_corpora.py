"""Corpora of captioned images, for captioning and retrieval."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attention_zoo.data import (
    CaptionedImages,
    CaptionLayout,
    generate_scenes,
    read_caption_tfds,
    read_captions,
    read_coco,
)
from attention_zoo.data.examples import ColumnFactory, Examples, make_list
from attention_zoo.data.images.image_files import list_image_states, may_be_image
from attention_zoo.data.images.images import get_decoder_versions
from attention_zoo.registry import Registry
from attention_zoo.tasks.cached_corpora import CachedCorpus
from attention_zoo.tasks.corpora import Corpus, GeneratedCorpus, TfdsCorpus
from attention_zoo.tasks.data_paths import check_paths, find_files

CAPTIONED_IMAGES = Registry("data.corpus")


@dataclass
class CaptionCorpus(Corpus):
    """Base class of corpora of captioned images.

    Args:
        image_size: side in pixels of the square that every image is resized to.
        max_target_length: maximum number of tokens of a caption; training drops longer captions.
    """

    image_size: int = 64
    max_target_length: int = 40

    limits: ClassVar[tuple[str, ...]] = ("image_size", "max_target_length")


@CAPTIONED_IMAGES.register("scenes")
@dataclass
class Scenes(GeneratedCorpus, CaptionCorpus):
    """Generated corpus of images with one to four objects; see `data.generate_scenes`.

    Args:
        min_things, max_things: range of the number of objects in an image.
        max_captions: maximum number of captions per training image, sampled with the seed. Images
            with more objects have more captions and would otherwise be trained on more often.
            Other splits keep all captions.
    """

    corpus: str = "scenes"
    validation_size: int = 200
    min_things: int = 1
    max_things: int = 4
    max_captions: int = 4

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "unseen")

    def _read(self, split: str) -> CaptionedImages:
        scenes = generate_scenes(**self.generator_options(split, "min_things", "max_things"))
        if split == "train":
            scenes = scenes.sample_captions(self.max_captions, self.seed)
        return scenes.resize(self.image_size)


@dataclass
class CaptionFileCorpus(CachedCorpus, CaptionCorpus):
    """Base class of corpora of caption files with folders of images.

    Args:
        images: folder or zip file with the images of all splits; None is the folder of the
            captions. Images without a caption are ignored if another split has the same folder.
        train_images, validation_images, test_images: the same for one split.
        skip_bad: maximum number of bad lines and images to skip; one more is an error.
    """

    images: str | None = None
    train_images: str | None = None
    validation_images: str | None = None
    test_images: str | None = None
    image_size: int = 224
    skip_bad: int = 0

    examples_class: ClassVar[type[Examples]] = CaptionedImages
    example_limits: ClassVar[tuple[str, ...]] = ("image_size",)
    folders: ClassVar[tuple[str, ...]] = (
        "images",
        "train_images",
        "validation_images",
        "test_images",
    )

    def _describe_images(self, split: str) -> dict[str, Any]:
        folder, shared = self.find_images(split, self.list_captions(split))
        return {
            "folder": folder,
            "shared": shared,
            "files": list_image_states(folder),
            "versions": get_decoder_versions(),
        }

    def _read_cached(self, split: str) -> Any:
        examples: Any = super()._read_cached(split)
        if examples.cache is not None and not all(map(may_be_image, examples.names)):
            return self._read_files(split, make_list)  # a file that is not in the key
        return examples

    def list_captions(self, split: str) -> list[str]:
        """Return the files with the captions of a split."""
        return self.find_files(split)

    def find_images(self, split: str, captions: Sequence[str]) -> tuple[str, bool]:
        """Return the folder or zip file of a split, and whether it has images of other splits.

        Args:
            split: the split.
            captions: the files of its captions.
        """
        own = vars(self)[f"{split}_images"]
        if own is None and self.images is not None:
            return self._find_folder("data.images", self.images), True
        if own is None:
            folder = str(Path(captions[0]).parent)
        else:
            folder = self._find_folder(f"data.{split}_images", own)
        others = (self._get_image_folder(other) for other in self.splits if other != split)
        shared = os.path.realpath(folder) in map(os.path.realpath, filter(None, others))
        return folder, shared

    def _find_folder(self, key: str, path: str) -> str:
        (folder, *more) = find_files(key, [path])
        if more:
            raise ValueError(f"{key} must name one folder or zip file, got {1 + len(more)}")
        return folder

    def _get_image_folder(self, split: str) -> str | None:
        """Return the folder of the images of a split, which may not exist; None without one."""
        if not vars(self)[split]:
            return None
        folder = vars(self)[f"{split}_images"] or self.images
        return os.path.expanduser(folder or Path(self.get_paths(split)[0]).parent)


@CAPTIONED_IMAGES.register("captions")
@dataclass
class CaptionLines(CaptionFileCorpus):
    """Text files with image names and captions; see `data.read_captions`.

    Args:
        captions: file with the captions of all splits, or a list of files. `train`, `validation`
            and `test` are then files with one image name per line. None: they are the captions.
        format: "jsonl", "tokens" (`name.jpg#0`, a tab, a caption) or "csv"; null is the one that
            most lines have.
        image, caption: columns of a CSV.
        delimiter: the character between two cells of a CSV.
    """

    corpus: str = "captions"
    captions: Any = None
    format: str | None = None
    image: str = "image"
    caption: str = "caption"
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.captions is not None:
            check_paths("data.captions", self.captions)
        self.make_layout()  # raises ValueError for an unknown format
        super().__post_init__()

    def make_layout(self) -> CaptionLayout:
        """Return the format of the files."""
        return CaptionLayout(self.format, self.image, self.caption, self.delimiter)

    def list_captions(self, split: str) -> list[str]:
        if self.captions is None:
            return self.find_files(split)
        return find_files("data.captions", check_paths("data.captions", self.captions))

    def _list_files(self, split: str) -> list[str]:
        files = self.find_files(split)
        return files if self.captions is None else [*files, *self.list_captions(split)]

    def _read_files(self, split: str, column_factory: ColumnFactory) -> CaptionedImages:
        files = self.find_files(split)
        captions = self.list_captions(split)
        images, shared = self.find_images(split, captions)
        names = None if self.captions is None else files
        options = self.image_size, self.skip_bad, shared, names, self.make_layout()
        return read_captions(images, captions, *options, column_factory)


@CAPTIONED_IMAGES.register("coco")
@dataclass
class Coco(CaptionFileCorpus):
    """JSON files in the format of COCO; see `data.read_coco`."""

    corpus: str = "coco"

    def _read_files(self, split: str, column_factory: ColumnFactory) -> CaptionedImages:
        files = self.find_files(split)
        images, shared = self.find_images(split, files)
        options = self.image_size, self.skip_bad, shared
        return read_coco(images, files, *options, column_factory)


@CAPTIONED_IMAGES.register("captions_tfds")
@dataclass
class CaptionsTfds(TfdsCorpus, CaptionCorpus):
    """Prepared TensorFlow dataset (TFDS) of captioned images; see `data.read_caption_tfds`.

    Args:
        image, captions: names of its features.
        skip_bad: maximum number of bad rows to skip; one more is an error.
    """

    corpus: str = "captions_tfds"
    validation: str | None = "val"
    name: str = "coco_captions"
    image: str = "image"
    captions: str = "captions/text"
    image_size: int = 224
    skip_bad: int = 0

    def _read(self, split: str) -> CaptionedImages:
        names = self.name, self.split_name(split), self.image, self.captions
        return read_caption_tfds(*names, self.image_size, self.folder, self.skip_bad)
