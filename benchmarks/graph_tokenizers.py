"""Measure tokenizers in a graph against the library that encodes the same texts in Python.

    python benchmarks/graph_tokenizers.py

SentencePiece (unigram and BPE, 8,000 pieces at most) and byte-level BPE are trained on generated
text. Each row is the median of several calls of one graph: a batch of 64 lines, and one line of 30
tokens.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import sentencepiece
import tensorflow as tf
from side_by_side import describe_device, write_section
from tokenizers import AddedToken, ByteLevelBPETokenizer

import attention_zoo as az
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer

LINES, TOKENS = 64, 30
SIZE = 8000
ROUNDS = 20


def make_texts() -> list[str]:
    """Return generated English and French sentences, reviews and claims."""
    pairs = az.data.generate_dates(3000)
    claims = az.data.generate_claims(2000)
    reviews = az.data.generate_reviews(300).texts
    return [*pairs.sources, *pairs.targets, *claims.firsts, *reviews]


def write_marian(folder: Path, texts: list[str], algorithm: str) -> None:
    """Train a unigram or BPE model of SentencePiece; write `source.spm` and `vocab.json`."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=content,
        vocab_size=SIZE,
        model_type=algorithm,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "source.spm").write_bytes(content.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    names = dict.fromkeys(["</s>", "<unk>", *pieces, "<pad>"])
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))


def write_roberta(folder: Path, texts: list[str]) -> None:
    """Train byte-level BPE; write `tokenizer.json`."""
    engine = ByteLevelBPETokenizer()
    engine.train_from_iterator(
        texts, SIZE, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False
    )
    engine.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    engine.save(str(folder / "tokenizer.json"))


def measure(call: Callable[[], Any]) -> float:
    """Return the median time of a call, in seconds."""
    times = []
    for _ in range(ROUNDS + 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def measure_tokenizer(write: Callable[[Path, list[str]], None], texts: list[str]) -> list[float]:
    """Return tokens/s of a batch in the graph and in Python, and the times of a line, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), texts)
        tokenizer = az.data.load_tokenizer(folder)
    graph = make_graph_tokenizer(tokenizer)
    signature = [tf.TensorSpec([None], tf.string)]
    encode = tf.function(lambda batch: graph.encode(batch)[0], input_signature=signature)
    lines = [line for line in az.data.generate_claims(9 * LINES, "test").firsts if len(line) < 200]
    batch = lines[:LINES]
    words = " ".join(lines).split()
    line = next(
        text
        for text in (" ".join(words[:size]) for size in range(TOKENS, 0, -1))
        if len(tokenizer.encode([text])[0]) <= TOKENS
    )
    count = sum(map(len, tokenizer.encode(batch)))
    assert encode(tf.constant(batch)).to_list() == tokenizer.encode(batch)
    in_graph, in_python = tf.constant(batch), tf.constant([line])
    return [
        count / measure(lambda: encode(in_graph)),
        count / measure(lambda: tokenizer.encode(batch)),
        1000 * measure(lambda: encode(in_python)),
        1000 * measure(lambda: tokenizer.encode([line])),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    texts = make_texts()
    lines = [
        f"| | {LINES} lines, graph, tokens/s | Python, tokens/s | ratio |"
        f" a line of {TOKENS} tokens, graph, ms | Python, ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, write in (
        ("SentencePiece, unigram", partial(write_marian, algorithm="unigram")),
        ("SentencePiece, BPE", partial(write_marian, algorithm="bpe")),
        ("byte-level BPE", write_roberta),
    ):
        ours, peer, line, peer_line = measure_tokenizer(write, texts)
        lines.append(
            f"| {name} | {ours:,.0f} | {peer:,.0f} | {ours / peer:.2f} | {line:.1f} |"
            f" {peer_line:.2f} |"
        )
    device = describe_device()
    lines += ["", f"One thread; Python: sentencepiece and tokenizers. {device}."]
    write_section("Tokenizers in a graph", lines, options.dry_run)


if __name__ == "__main__":
    main()
