"""Corpora of captioned images, for captioning and retrieval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from attention_zoo.data import (
    CaptionedImages,
    generate_scenes,
    read_caption_tfds,
    read_captions,
    read_coco,
)
from attention_zoo.registry import Registry
from attention_zoo.tasks.corpora import Corpus, FileCorpus, GeneratedCorpus, TfdsCorpus

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
class CaptionFileCorpus(FileCorpus, CaptionCorpus):
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

    reader: ClassVar[Callable[..., CaptionedImages]] = staticmethod(read_captions)

    def _read(self, split: str) -> CaptionedImages:
        captions = self.path(split)
        images = vars(self)[f"{split}_images"] or str(Path(captions).parent)
        return self.reader(images, captions, self.image_size, self.skip_bad)


@CAPTIONED_IMAGES.register("captions")
@dataclass
class CaptionLines(CaptionFileCorpus):
    """JSON Lines files with an image name and its captions per line; see `data.read_captions`."""

    corpus: str = "captions"


@CAPTIONED_IMAGES.register("coco")
@dataclass
class Coco(CaptionFileCorpus):
    """JSON files in the format of COCO; see `data.read_coco`."""

    corpus: str = "coco"

    reader = staticmethod(read_coco)


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
        names = self.name, self.path(split), self.image, self.captions
        return read_caption_tfds(*names, self.image_size, self.data_dir, self.skip_bad)
