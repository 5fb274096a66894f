"""Marian and T5 tokenizers with small SentencePiece models, trained on generated text."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from attention_zoo.data import generate_claims, generate_reviews

LETTERS = "äéßøжящ中文東京かﾊ한국ابجn\u0303"
SPECIAL = ("</s>", "<unk>")
CODES = (">>fra<<", ">>deu_Latn<<")


def make_training_texts() -> list[str]:
    claims = generate_claims(150)
    return [
        *claims.firsts,
        *claims.seconds,
        *generate_reviews(30).texts,
        *LETTERS,
        "!! ?! ... -- 11 222",
    ]


@functools.cache
def train_model(algorithm: str = "unigram", **options: Any) -> bytes:
    """Return the bytes of a model file of 400 pieces."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_training_texts()),
        model_writer=content,
        vocab_size=400,
        model_type=algorithm,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return content.getvalue()


def change_model(change: Callable[[Any], None], algorithm: str = "unigram") -> bytes:
    """Return the bytes of a model file after a change of its protocol buffer."""
    proto: Any = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(train_model(algorithm))
    change(proto)
    return bytes(proto.SerializeToString())


def list_pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def write_checkpoint(
    folder: Path, model: bytes | None = None, codes: Sequence[str] = CODES
) -> dict[str, int]:
    """Write the files of a Marian tokenizer; return its vocabulary, whose last id is `<pad>`.

    The vocabulary lacks the pieces of the letters "z" and "q", and has a letter that the model
    does not know.
    """
    model = model or train_model()
    pieces = [p for p in list_pieces(model) if p not in ("<s>", *SPECIAL, "z", "q")]
    names = [*SPECIAL, *pieces, *codes, "ŧ", "<pad>"]
    vocabulary = {name: number for number, name in enumerate(names)}
    (folder / "source.spm").write_bytes(model)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    return vocabulary


def write_t5(folder: Path) -> list[str]:
    """Write the `spiece.model` of a T5 tokenizer; return its pieces."""
    model = train_model(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(model)
    return list_pieces(model)
