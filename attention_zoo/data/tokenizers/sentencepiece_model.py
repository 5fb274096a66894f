"""The parts of a SentencePiece model file: pieces with scores, and rules of normalization."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.extras import explain_missing_package

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of pieces in the file."""
ALGORITHMS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class SentencePieceModel(NamedTuple):
    """A model file, as `spm_train` writes it.

    Attributes:
        content: the bytes of the file.
        algorithm: "unigram", "bpe", "word" or "char".
        pieces, scores, types: the pieces in id order, with `▁` for a space.
        rules: the rules of character normalization; None if there are none.
        adds_prefix: whether a space is put before a text.
        removes_spaces: whether runs of spaces become one, and those at both ends are removed.
        marks_spaces: whether spaces become `▁`.
        marks_ends: whether `▁` ends a word, instead of starting it.
    """

    content: bytes
    algorithm: str
    pieces: list[str]
    scores: list[float]
    types: list[int]
    rules: CharacterRules | None
    adds_prefix: bool
    removes_spaces: bool
    marks_spaces: bool
    marks_ends: bool

    @property
    def unknown(self) -> int:
        """Id of the unknown piece."""
        return self.types.index(UNKNOWN)


class CharacterRules(NamedTuple):
    """Replacements of strings, the longest match first, in a double-array trie over UTF-8 bytes.

    In state s, byte b leads to unit `offsets[s] ^ b`, if `labels` of that unit is b. If a rule ends
    there, `values` of unit `offsets[unit]` is the number of its replacement. State 0 is the root.

    Attributes:
        offsets, labels, ends, values: arrays of the units of the trie; no byte is -1.
        replacements: UTF-8 strings.

    Reference:
        The format is that of Darts-clone, in the field `precompiled_charsmap`.
    """

    offsets: np.ndarray
    labels: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    replacements: list[bytes]


def read_sentencepiece_model(path: Path) -> SentencePieceModel:
    """Read a SentencePiece model file.

    Raises:
        ValueError: the file is missing or damaged, or sentencepiece is not installed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; expected a SentencePiece model") from None
    try:
        return parse_sentencepiece_model(content)
    except (ValueError, IndexError, struct.error) as error:
        raise ValueError(f"{path}: not a SentencePiece model ({error}); copy it again") from None


def parse_sentencepiece_model(content: bytes) -> SentencePieceModel:
    """Parse the bytes of a model file; ValueError if they are damaged."""
    with explain_missing_package():
        from sentencepiece import sentencepiece_model_pb2
    from google.protobuf.message import DecodeError

    proto: Any = sentencepiece_model_pb2.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    types = [int(piece.type) for piece in proto.pieces]
    if types.count(UNKNOWN) != 1:
        raise ValueError(f"expected one unknown piece, got {types.count(UNKNOWN)}")
    normalizer, trainer = proto.normalizer_spec, proto.trainer_spec
    charsmap = normalizer.precompiled_charsmap
    return SentencePieceModel(
        content,
        ALGORITHMS[int(trainer.model_type)],
        [piece.piece for piece in proto.pieces],
        [piece.score for piece in proto.pieces],
        types,
        parse_rules(charsmap) if charsmap else None,
        normalizer.add_dummy_prefix,
        normalizer.remove_extra_whitespaces,
        normalizer.escape_whitespaces,
        trainer.treat_whitespace_as_suffix,
    )


def parse_rules(charsmap: bytes) -> CharacterRules:
    """Parse the field `precompiled_charsmap`: the size of a trie, the trie, and replacements."""
    (size,) = struct.unpack("<I", charsmap[:4])
    units = np.frombuffer(charsmap[4 : 4 + size], "<u4").astype("int64")
    *replacements, rest = charsmap[4 + size :].split(b"\0")
    if not len(units) or rest:
        raise ValueError("damaged precompiled_charsmap")
    labels = units & (1 << 31 | 0xFF)
    starts = np.cumsum([0, *(len(text) + 1 for text in replacements[:-1])])
    return CharacterRules(
        ((units >> 10) << ((units & 1 << 9) >> 6)).astype("int32"),
        np.where(labels > 0xFF, -1, labels).astype("int32"),
        units >> 8 & 1 == 1,
        np.searchsorted(starts, units & (1 << 31) - 1).astype("int32"),
        replacements,
    )
