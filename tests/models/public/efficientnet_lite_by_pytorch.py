"""Write a small EfficientNet-Lite of the package `efficientnet-lite-pytorch`, and its outputs.

    python efficientnet_lite_by_pytorch.py FOLDER

It runs in an environment with torch and that package, so nothing of attention_zoo is imported. The
folder then holds `config.json`, `model.safetensors` in float16, and `expected.npz`: for images of
an even and an odd size the images, the features and the logits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from efficientnet_lite_pytorch import EfficientNet
from efficientnet_lite_pytorch.utils import efficientnet_lite
from safetensors.torch import save_file

COEFFICIENTS = {"width_coefficient": 0.1, "depth_coefficient": 0.34}
SIZES = (48, 37)
CLASSES = 5


def build(size: int) -> Any:
    blocks, options = efficientnet_lite(**COEFFICIENTS, image_size=size, num_classes=CLASSES)
    return EfficientNet(blocks, options).eval()


def make_images(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    return rng.integers(0, 256, (count, size, size, 3)).astype("uint8")


def normalize(images: np.ndarray) -> torch.Tensor:
    return (torch.tensor(images).permute(0, 3, 1, 2).float() - 127) / 128


def make_weights(rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """Return random weights in float16, with batch statistics of random images."""
    model = build(SIZES[0])
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        torch.nn.init.normal_(norm.bias, std=0.2)
        norm.momentum = 1.0  # the statistics are those of the only batch
    with torch.no_grad():
        model.train()(normalize(make_images(rng, 32, SIZES[0])))
    state = model.state_dict().items()
    return {name: x.half() if x.is_floating_point() else x for name, x in state}


def main(folder: Path) -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    tensors = make_weights(rng)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"model_type": "efficientnet-lite", **COEFFICIENTS}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    expected = {}
    for size in SIZES:
        model = build(size)
        model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        images = make_images(rng, 2, size)
        pixels = normalize(images)
        with torch.no_grad():
            features, logits = model.extract_features(pixels), model(pixels)
        expected |= {f"images_{size}": images, f"logits_{size}": logits.numpy()}
        expected[f"features_{size}"] = features.permute(0, 2, 3, 1).numpy()
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
