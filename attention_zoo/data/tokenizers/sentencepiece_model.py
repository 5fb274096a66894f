"""The parts of a SentencePiece model file: pieces with scores, and the rules of normalization."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.data.reading import get_first_line
from attention_zoo.json_files import MAX_VALUES

MAX_MODEL_BYTES = 1 << 24
"""Maximum size of a model file; that of 250,000 pieces has 5 MB."""
NORMAL, UNKNOWN, USER_DEFINED, UNUSED, BYTE = 1, 2, 4, 5, 6
"""Types of pieces in the file."""
MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class SentencePieceModel(NamedTuple):
    """A model file, as `spm_train` writes it.

    Attributes:
        content: the bytes of the file.
        model_type: "unigram", "bpe", "word" or "char".
        pieces, scores, types: the pieces in id order, with `▁` for a space.
        character_map: the rules of `precompiled_charsmap`; None if there are none.
        add_dummy_prefix: whether a space is put before a text.
        remove_extra_whitespaces: whether runs of spaces become one, and those at both ends are
            removed.
        escape_whitespaces: whether spaces become `▁`.
        treat_whitespace_as_suffix: whether `▁` ends a word, instead of starting it.
    """

    content: bytes
    model_type: str
    pieces: list[str]
    scores: list[float]
    types: list[int]
    character_map: CharacterMap | None
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    treat_whitespace_as_suffix: bool


class CharacterMap(NamedTuple):
    """Replacements of strings, the longest match first, in a double-array trie over UTF-8 bytes.

    Byte b leads from state s to unit `offsets[s] ^ b`, if `labels` of this unit is b. If a rule
    ends there, `values[offsets[unit]]` is the number of its replacement. The root is state 0.

    Attributes:
        offsets, labels, ends, values: arrays of the units of the trie; `labels` is -1 for units
            without a byte.
        replacements: UTF-8 strings.

    Reference:
        The format is that of Darts-clone, in the field `precompiled_charsmap`.
    """

    offsets: np.ndarray
    labels: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    replacements: list[bytes]


def parse_sentencepiece_model(content: bytes) -> tuple[SentencePieceModel, Any]:
    """Parse the bytes of a model file.

    Returns:
        The model, and the `SentencePieceProcessor` that encodes texts with it.

    Raises:
        ValueError: the bytes are damaged, or the model encodes unknown characters as bytes.
        ModuleNotFoundError: sentencepiece is not installed.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

    if content.count(b"\n") > 2 * MAX_VALUES:  # "\n" begins a piece, and its text
        raise ValueError(f"has more than {MAX_VALUES:,} pieces; copy it again")
    proto: Any = sentencepiece_model_pb2.ModelProto()
    try:
        processor = SentencePieceProcessor(model_proto=content)
        proto.ParseFromString(content)
    except (RuntimeError, DecodeError) as error:
        reason = get_first_line(error)
        raise ValueError(f"not a SentencePiece model: {reason}; copy it again") from None
    types = [int(piece.type) for piece in proto.pieces]
    for kind, name in ((UNKNOWN, "unknown"), (NORMAL, "normal")):
        if kind not in types:
            raise ValueError(f"not a SentencePiece model: it has no {name} piece; copy it again")
    if BYTE in types:
        raise ValueError(
            "a SentencePiece model with byte_fallback=true is not supported; train it without"
        )
    normalizer, trainer = proto.normalizer_spec, proto.trainer_spec
    charsmap = normalizer.precompiled_charsmap
    model = SentencePieceModel(
        content,
        MODEL_TYPES[int(trainer.model_type)],
        [piece.piece for piece in proto.pieces],
        [piece.score for piece in proto.pieces],
        types,
        parse_charsmap(charsmap) if charsmap else None,
        normalizer.add_dummy_prefix,
        normalizer.remove_extra_whitespaces,
        normalizer.escape_whitespaces,
        trainer.treat_whitespace_as_suffix,
    )
    return model, processor


def parse_charsmap(charsmap: bytes) -> CharacterMap:
    """Parse the field `precompiled_charsmap`: the size of a trie, the trie, and replacements."""
    (size,) = struct.unpack("<I", charsmap[:4])  # SentencePiece has checked it
    units = np.frombuffer(charsmap[4 : 4 + size], "<u4").astype("int64")
    replacements = charsmap[4 + size :].split(b"\0")[:-1]
    labels = units & (1 << 31 | 0xFF)
    starts = np.cumsum([0, *(len(text) + 1 for text in replacements[:-1])])
    return CharacterMap(
        ((units >> 10) << ((units & 1 << 9) >> 6)).astype("int32"),
        np.where(labels > 0xFF, -1, labels).astype("int32"),
        units >> 8 & 1 == 1,
        np.searchsorted(starts, units & (1 << 31) - 1).astype("int32"),
        replacements,
    )
