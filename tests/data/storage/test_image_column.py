"""Images in a file equal the array of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data.storage.image_column import ImageFile

IMAGES = np.random.default_rng(0).integers(0, 256, (11, 3, 4, 2), np.uint8)


@pytest.fixture
def images(tmp_path: Path) -> ImageFile:
    file = ImageFile(tmp_path / "images.npy", create=True)
    for image in IMAGES:
        file.append(image)
    assert (len(file), file.shape) == (11, IMAGES.shape)
    file.close()
    return ImageFile(tmp_path / "images.npy")


def test_a_file_has_the_interface_of_its_array(images: ImageFile) -> None:
    np.testing.assert_array_equal(np.load(images.path), IMAGES)
    np.testing.assert_array_equal(np.asarray(images), IMAGES)
    np.testing.assert_array_equal([*images], IMAGES)
    assert (images.shape, images.ndim, images.dtype) == (IMAGES.shape, 4, np.uint8)
    indices: list[Any] = [0, -1, np.int64(3), slice(2, 5), [4, 4, 0], np.array([7, 1]), []]
    indices += [(0, 1, 2), (slice(1, 9), slice(2)), ([2, 1], 0), (-1, ..., 1)]
    rows = np.arange(10, -1, -1)
    for index in indices:
        np.testing.assert_array_equal(images[index], IMAGES[index])
        np.testing.assert_array_equal(images.select(rows)[index], IMAGES[rows][index])
    with pytest.raises(IndexError):
        images[11]
    with pytest.raises(ValueError, match="in a file"):
        np.array(images, copy=False)


def test_selected_images_are_read_from_the_same_file(images: ImageFile) -> None:
    selected = images.select(range(1, 9)).select([6, 0, 0])
    assert selected.shape == (3, 3, 4, 2)
    for one in (selected, pickle.loads(pickle.dumps(selected))):
        np.testing.assert_array_equal(one[:], IMAGES[[7, 1, 1]])
        np.testing.assert_array_equal(one[np.array([1, 2])], IMAGES[[1, 1]])
    assert len(images.select([])) == 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(images))[2:], IMAGES[2:])
    images.path.unlink()  # as `attention-zoo cache clear` does
    np.testing.assert_array_equal(images.select([3])[0], IMAGES[3])


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    file = ImageFile(tmp_path / "images.npy", create=True)
    file.append(IMAGES[0])
    with pytest.raises(ValueError, match=r"images\.npy: expected \(3, 4, 2\), got \(4, 3, 2\)$"):
        file.append(IMAGES[0].transpose(1, 0, 2))
    assert file[0].tolist() == IMAGES[0].tolist()  # which completes the file
    with pytest.raises(ValueError, match="the file is complete; no images can be added"):
        file.append(IMAGES[0])
