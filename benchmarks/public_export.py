"""Time of an exported translator of the size of a Marian checkpoint, with random weights.

    python benchmarks/public_export.py

A process that imports only TensorFlow loads the export and translates a text of 25 tokens by greedy
search to 30 tokens: once after loading, then several times.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sentencepiece
from side_by_side import describe_device, write_section

VOCABULARY, SOURCE, TARGET = 58_100, 25, 30
"""Sizes of the vocabulary, and numbers of tokens."""
ROUNDS = 10
LIMITS = {"load": 5.0, "first result": 10.0, "later results": 1.0}
"""Targets in seconds."""


def write_tokenizers(folder: Path, texts: list[str]) -> None:
    """Train SentencePiece; write the files of a Marian tokenizer with a large vocabulary."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=content,
        vocab_size=2000,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(content.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    names = dict.fromkeys(["</s>", "<unk>", *pieces])
    names |= dict.fromkeys(f"piece{number}" for number in range(VOCABULARY - 1 - len(names)))
    names["<pad>"] = None
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))


def write_export(folder: Path) -> str:
    """Export a translator to `folder/served`; return a text of `SOURCE` tokens."""
    import attention_zoo as az
    from attention_zoo.data.tokenizers.sentencepiece_tokenizer import load_sentencepiece_tokenizer

    texts = az.data.generate_dates(3000).sources
    write_tokenizers(folder, texts)
    source, target = (load_sentencepiece_tokenizer(folder, side) for side in ("source", "target"))
    model = az.models.Transformer(
        source.vocabulary_size,
        target.vocabulary_size,
        embedding_dim=512,
        units=2048,
        num_heads=8,
        num_layers=6,
        tie={"kind": "all", "bias": True},
        positions="sinusoidal_halves",
        layer={"norm_first": False, "activation": "silu", "epsilon": 1e-5},
    )
    search = az.decoding.SearchOptions(min_length=TARGET, max_length=TARGET)
    options = {"max_source_length": 512, "max_target_length": 512, "add_source_end": True}
    task = az.tasks.Translation(model, source, target, search, **options)
    az.export.export(task, folder / "served")
    words = " ".join(texts).split()
    return next(
        text
        for text in (" ".join(words[:size]) for size in range(SOURCE, 0, -1))
        if len(source.encode([text])[0]) < SOURCE
    )


def serve(folder: str, text: str) -> None:
    """Load the export and translate; print the seconds of each part."""
    import tensorflow as tf

    start = time.perf_counter()
    served = tf.saved_model.load(folder)
    translate = served.signatures["serving_default"]
    loaded = time.perf_counter()
    texts = tf.constant([text])
    seconds = []
    for _ in range(1 + ROUNDS):
        before = time.perf_counter()
        lengths = translate(text=texts)["lengths"].numpy()
        seconds.append(time.perf_counter() - before)
    assert lengths[0, 0] >= TARGET - 1, lengths
    print(json.dumps([loaded - start, seconds[0], statistics.median(seconds[1:])]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    with tempfile.TemporaryDirectory() as name:
        text = write_export(Path(name))
        command = [sys.executable, __file__, "--serve", str(Path(name) / "served"), text]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    measured = json.loads(done.stdout.splitlines()[-1])
    lines = ["| | seconds | target |", "|---|---|---|"]
    lines += [
        f"| {name} | {seconds:.2f} | {limit:g} |"
        for (name, limit), seconds in zip(LIMITS.items(), measured, strict=True)
    ]
    lines += [
        "",
        f"Greedy search, {TARGET} tokens, 6 + 6 layers of 512, vocabulary of {VOCABULARY:,};"
        f" later results: median of {ROUNDS}. {describe_device()}.",
    ]
    write_section(
        "An exported translator of the size of a Marian checkpoint", lines, options.dry_run
    )


if __name__ == "__main__":
    main()
