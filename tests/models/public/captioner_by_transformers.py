"""Train a small ViT + GPT-2 with `transformers`; write its logits, pixels and generated tokens.

    python captioner_by_transformers.py FOLDER [ENCODER_WIDTH [COUNT [SEED]]]

With COUNT 0, nothing is generated.

It runs in an environment with torch, transformers and Pillow, so nothing of attention_zoo is
imported. The folder then holds the files of a released model, and `expected.json`: for several
generation configs, the generated ids and the scores of beam search; `expected.npz` has the images,
the logits of a batch, and the pixels that the image processor makes of `expected*.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import tokenizers
import torch
import transformers
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

STEPS, BATCH = 250, 64
NUM_OTHER = 30
"""Number of images captioned with each option after the first two."""
SIDE, PATCH, WIDTH = 16, 8, 32
END_OF_TEXT = "<|endoftext|>"
COLOURS = {
    "black": (0, 0, 0),
    "red": (220, 30, 30),
    "green": (30, 200, 40),
    "blue": (20, 40, 230),
    "white": (250, 250, 250),
    "yellow": (230, 220, 30),
    "grey": (120, 120, 120),
}
PNG_SIZES = ((37, 53), (16, 16), (9, 120))
OPTIONS: list[dict[str, Any]] = [
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0},
    {"num_beams": 4, "min_length": 14},
    {"num_beams": 4, "max_length": 7},
    {"num_beams": 4, "no_repeat_ngram_size": 2},
    {"num_beams": 4, "suppress_tokens": "the most frequent one"},
]


def make_examples(rng: np.random.Generator, count: int) -> tuple[np.ndarray, list[str]]:
    """Return images of four squares, and captions with the colours that are not black."""
    names = list(COLOURS)
    images = np.zeros((count, SIDE, SIDE, 3), np.uint8)
    captions = []
    for image in images:
        chosen = [names[number] for number in rng.integers(len(names), size=4)]
        for position, name in enumerate(chosen):
            row, column = (PATCH * x for x in divmod(position, 2))
            image[row : row + PATCH, column : column + PATCH] = COLOURS[name]
        captions.append(" and ".join(name for name in chosen if name != "black") or "nothing")
    return images, captions


def train_byte_pairs(folder: Path, texts: list[str]) -> Any:
    """Write the tokenizer of a GPT-2, and return it; its last token ends a text."""
    learner = tokenizers.ByteLevelBPETokenizer()
    learner.train_from_iterator(texts, 275, 2, False)
    learner.save_model(str(folder))
    ids = json.loads((folder / "vocab.json").read_text())
    ids[END_OF_TEXT] = len(ids)
    (folder / "vocab.json").write_text(json.dumps(ids))
    return transformers.GPT2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


def build(size: int, encoder_width: int) -> Any:
    """Return a model; `<|endoftext|>`, the last token, is the start and the end token."""
    encoder = transformers.ViTConfig(
        hidden_size=encoder_width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=SIDE,
        patch_size=PATCH,
        initializer_range=0.1,
    )
    end = size - 1
    decoder = transformers.GPT2Config(
        vocab_size=size,
        n_embd=WIDTH,
        n_head=4,
        n_layer=2,
        n_positions=24,
        initializer_range=0.1,
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=end,
        eos_token_id=end,
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = config.eos_token_id = config.pad_token_id = end
    return transformers.VisionEncoderDecoderModel(config)


def preprocess(images: np.ndarray) -> torch.Tensor:
    """Return the pixel values of images that have the model's size."""
    return torch.from_numpy((images.astype("float32") / 255 - 0.5) / 0.5).permute(0, 3, 1, 2)


def train(model: Any, images: np.ndarray, rows: list[list[int]]) -> None:
    """Train for `STEPS` batches, then round the weights to float16."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    end = model.config.eos_token_id
    for step in range(STEPS):
        chosen = slice(step * BATCH, (step + 1) * BATCH)
        longest = max(map(len, rows[chosen])) + 1
        labels = torch.full((BATCH, longest), -100)
        for label, row in zip(labels, rows[chosen], strict=True):
            label[: len(row) + 1] = torch.tensor([*row, end])
        inputs = torch.where(labels == -100, end, labels).roll(1, 1)
        inputs[:, 0] = end
        logits = model(preprocess(images[chosen]), decoder_input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss of the last batch:", round(loss.item(), 3))
    model.eval().half()


def compute_logits(model: Any, images: np.ndarray) -> dict[str, Any]:
    """Return the logits of random tokens; token id 0 occurs in the targets."""
    size = model.config.decoder.vocab_size
    target = torch.randint(0, size - 1, (len(images), 7))
    target[:, 0], target[:, 3] = size - 1, 0
    with torch.no_grad():
        encoded = model.encoder(preprocess(images)).last_hidden_state
        logits = model(preprocess(images), decoder_input_ids=target).logits
    outputs = {"target": target, "logits": logits, "encoded": encoded}
    return {name: x.numpy() for name, x in outputs.items()}


def write_png(folder: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Write PNG files and the settings of the processor; return the pixel values `(H, W, 3)`."""
    processor = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})
    processor.save_pretrained(folder)
    pixels = {}
    for number, (height, width) in enumerate(PNG_SIZES):
        down, across = np.mgrid[:height, :width]
        waves = [128 + 100 * np.sin(down / 5 + k) * np.cos(across / 4 - k) for k in range(3)]
        image = np.stack(waves, axis=-1) + rng.integers(-27, 27, (height, width, 3))
        file = folder / f"expected{number}.png"
        PIL.Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(file)
        values = processor(PIL.Image.open(file), return_tensors="np")["pixel_values"][0]
        pixels[f"pixels{number}"] = values.transpose(1, 2, 0)
    return pixels


def generate(model: Any, images: np.ndarray, options: dict[str, Any]) -> Any:
    """Return the generated ids without the start token and padding, and the scores."""
    end, rows, scores = model.config.eos_token_id, [], []
    for image in images:
        output = model.generate(
            preprocess(image[None]),
            **options,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        ids = output.sequences[0, 1:].tolist()
        rows.append(ids[: ids.index(end) + 1] if end in ids else ids)
        if options["num_beams"] > 1:
            scores.append(output.sequences_scores[0].item())
    return rows, scores


def main(name: str, encoder_width: str = "24", given: str = "200", seed: str = "7") -> None:
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    rng, total = np.random.default_rng(int(seed)), int(given)
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    images, captions = make_examples(rng, STEPS * BATCH + max(total, 3))
    tokenizer = train_byte_pairs(folder, captions[:2000])
    rows = tokenizer(captions)["input_ids"]
    model = build(len(tokenizer), int(encoder_width))
    end = model.config.eos_token_id
    special = {"decoder_start_token_id": end, "eos_token_id": end, "pad_token_id": end}
    model.generation_config = transformers.GenerationConfig(**special, max_length=20, num_beams=4)
    if total:
        train(model, images, rows)
    model.save_pretrained(folder)
    model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    images = images[STEPS * BATCH :]
    arrays = {**compute_logits(model, images[:3]), **write_png(folder, rng)}
    np.savez_compressed(folder / "expected.npz", images=images, **arrays)
    if not total:
        return
    cases = []
    for number, given_options in enumerate(OPTIONS):
        options = dict(given_options)
        if "suppress_tokens" in options:
            counts = np.bincount([token for row in cases[0]["ids"] for token in row[:-1]])
            options["suppress_tokens"] = [int(counts.argmax())]
        found, scores = generate(model, images[: total if number < 2 else NUM_OTHER], options)
        cases.append({"options": options, "ids": found, "scores": scores})
        different, ended = len({str(row) for row in found}), sum(row[-1] == end for row in found)
        print(options, different, "different outputs,", ended, "of", len(found), "end")
    (folder / "expected.json").write_text(json.dumps({"cases": cases}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
