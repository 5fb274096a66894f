"""SentencePiece tokenizer of Marian: pieces of a model file, with ids from `vocab.json`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_zoo.data.tokenizers.engine import EngineTokenizer
from attention_zoo.data.tokenizers.flat_ids import FlatIds
from attention_zoo.data.tokenizers.sentencepiece_model import (
    SentencePieceModel,
    parse_sentencepiece_model,
)
from attention_zoo.data.tokenizers.vocabulary import (
    END,
    MARK,
    PAD,
    START,
    UNKNOWN,
    check_unicode,
)
from attention_zoo.extras import explain_missing_package

MODEL_FILES = {"source": "source.spm", "target": "target.spm"}
VOCABULARY = "vocab.json"
TARGET_VOCABULARY = "target_vocab.json"
"""The vocabulary of the target language, if it is not the same."""
UNKNOWN_PIECE, END_PIECE, PAD_PIECE = "<unk>", "</s>", "<pad>"
MAX_ID = 1 << 24
SPECIAL_PIECES = (UNKNOWN_PIECE, PAD_PIECE, END_PIECE)
"""The pieces of the tokens 1, 2 and 3."""
LANGUAGE_CODE = re.compile(r">>[\w-]+<<", re.ASCII)
"""A piece that names the target language, such as `>>fra<<`."""


class SentencePieceTokenizer(EngineTokenizer):
    """SentencePiece tokenizer with the vocabulary of Marian, loaded by `data.load_tokenizer`.

    The first ids are the library's special tokens: 0 is padding, which no id of the checkpoint
    stands for, 1 `<unk>`, 2 `<pad>`, which is the start token, and 3 `</s>`, the end token. The
    other ids of the checkpoint follow in order.

    A language code of the vocabulary, such as `>>fra<<`, is one token at the start of a text or
    after another special piece. Elsewhere, and if the vocabulary lacks it, it is ordinary text;
    `transformers` removes it, or makes it one unknown token.

    Args:
        model: the model that splits texts into pieces.
        processor: the `SentencePieceProcessor` of this model.
        vocabulary: id of each piece in the checkpoint; an id that no piece has adds no text.

    Attributes:
        pad, unknown, start, end, mask: token ids; mask is None.
        language_codes: the language codes of the vocabulary.

    Raises:
        ValueError: the vocabulary lacks a special piece, or two pieces have the same id.
    """

    kind = "sentencepiece"
    pad, unknown, start, end, mask = PAD, UNKNOWN, START, END, None

    def __init__(
        self, model: SentencePieceModel, processor: Any, vocabulary: dict[str, int]
    ) -> None:
        self.model, self.vocabulary, self._processor = model, vocabulary, processor
        self._pieces: dict[int, str] = {}
        for piece, number in vocabulary.items():
            other = self._pieces.setdefault(number, piece)
            if other != piece:
                raise ValueError(
                    f"{other!r} and {piece!r} have the same id {number}; copy the file again"
                )
        missing = [piece for piece in SPECIAL_PIECES if piece not in vocabulary]
        if missing:
            raise ValueError(
                f"there is no {missing[0]}, which Marian requires; expected the vocab.json of a"
                " Marian checkpoint"
            )
        special = [vocabulary[piece] for piece in SPECIAL_PIECES]
        others = [number for number in range(max(self._pieces) + 1) if number not in special]
        self._checkpoint_ids = [-1, *special, *others]
        self._ids = {number: token_id for token_id, number in enumerate(self._checkpoint_ids)}
        self._special = re.compile("|".join(SPECIAL_PIECES))
        self.language_codes = [piece for piece in vocabulary if LANGUAGE_CODE.fullmatch(piece)]
        codes = "|".join(map(re.escape, self.language_codes))
        self._code = re.compile(codes or r"(?!)")

    @property
    def vocabulary_size(self) -> int:
        return len(self._checkpoint_ids)

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that determines the ids of a text."""
        content = self.model.content + json.dumps(self.vocabulary, sort_keys=True).encode()
        return hashlib.sha256(content).hexdigest()

    def find_language_code(self, text: str) -> str:
        match = LANGUAGE_CODE.match(text)
        return match[0] if match else ""

    @cached_property
    def lowercase(self) -> bool:
        """Whether texts are lowercased."""
        return str(self._processor.normalize("A")).strip(f" {MARK}") == "a"

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each token of `encode` in the text, in characters.

        The end is exclusive. White space before a word belongs to no token.

        Raises:
            ValueError: the text is invalid Unicode (a lone surrogate).
        """
        check_unicode(text, "the text")
        offsets = []
        for start, end, is_special in self._split(text):
            if is_special:
                offsets.append((start, end))
                continue
            part = text[start:end]
            spans = self._processor.encode(part, out_type="offset_mapping")["offsets"]
            for begin, after in spans:
                begin = after - len(part[begin:after].lstrip())
                offsets.append((start + begin, start + after))
        return offsets

    def decode(
        self, ids: Iterable[int], copied: Sequence[str] | None = None, past_end: bool = False
    ) -> str:
        """Return the text of the ids up to the end token, without padding and start tokens.

        With `past_end`, end tokens do not stop decoding and add no text. `copied` are the texts of
        the unknown tokens, in order, with their marks.
        """
        surfaces, copies = [], iter(copied or ())
        for token_id in map(int, ids):
            if token_id == self.end and not past_end:
                break
            surface = self.decode_one(token_id)
            surfaces.append(next(copies, surface) if token_id == self.unknown else surface)
        return "".join(surfaces).replace(MARK, " ").strip(" ")

    def decode_one(self, token_id: int) -> str:
        """Return the text that one id adds, with "▁" for a space."""
        if self._check_id(token_id) in (self.pad, self.start, self.end):
            return ""
        return self._get_piece(token_id)

    def tokens(self, ids: Iterable[int], copied: Sequence[str] | None = None) -> list[str]:
        """Return a label for each id, for plots: the piece without its mark.

        `copied` are the texts of the unknown tokens, in order.
        """
        copies, pieces = iter(copied or ()), list[str]()
        for token_id in map(int, ids):
            piece = self._get_piece(self._check_id(token_id))
            pieces.append(next(copies, piece) if token_id == self.unknown else piece)
        return [piece.removeprefix(MARK) or MARK for piece in pieces]

    def surfaces(self, text: str) -> list[str]:
        """Return the piece of each token of `encode`, also of unknown tokens, with its mark."""
        (pieces,) = self._list_pieces([text])
        return pieces

    def unknown_surfaces(self, text: str) -> list[str]:
        """Return the pieces of the unknown tokens of `encode`, in order, with their marks."""
        return [piece for piece in self.surfaces(text) if self._get_id(piece) == self.unknown]

    def save(self, folder: str | Path) -> None:
        """Write `source.spm` and `vocab.json` into a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MODEL_FILES["source"]).write_bytes(self.model.content)
        content = json.dumps(self.vocabulary, ensure_ascii=False, indent=2) + "\n"
        (folder / VOCABULARY).write_text(content, encoding="utf-8")

    def from_checkpoint_id(self, token_id: int) -> int:
        """Convert a token id of the checkpoint to the id in this library."""
        return self._ids[token_id]

    def to_checkpoint_id(self, token_id: int) -> int:
        """Convert a token id of this library to the checkpoint's id, -1 for padding."""
        return self._checkpoint_ids[token_id]

    def _encode_chunk(self, texts: Sequence[str]) -> FlatIds:
        rows = self._list_pieces(texts)
        return FlatIds.from_rows([[self._get_id(piece) for piece in pieces] for pieces in rows])

    def _list_pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the pieces of each text."""
        parts = [self._split(text) for text in texts]
        plain = [
            text[start:end]
            for text, spans in zip(texts, parts, strict=True)
            for start, end, is_special in spans
            if not is_special
        ]
        encoded = iter(self._processor.encode(plain, out_type=str))
        rows = []
        for text, spans in zip(texts, parts, strict=True):
            pieces: list[str] = []
            for start, end, is_special in spans:
                pieces += [text[start:end]] if is_special else next(encoded)
            rows.append(pieces)
        return rows

    def _split(self, text: str) -> list[tuple[int, int, bool]]:
        """Return start and end of the parts of a text, and whether a part is one special piece.

        A language code is special at the start of a text, and after another special piece.
        """
        spans, start = [], 0
        for match in [*self._special.finditer(text), None]:
            end = match.start() if match else len(text)
            code = self._code.match(text, start, end)
            if code:
                spans.append((start, code.end(), True))
                start = code.end()
            if start < end:
                spans.append((start, end, False))
            if match:
                spans.append((end, match.end(), True))
                start = match.end()
        return spans

    def _get_id(self, piece: str) -> int:
        return self.from_checkpoint_id(self.vocabulary.get(piece, self.vocabulary[UNKNOWN_PIECE]))

    def _get_piece(self, token_id: int) -> str:
        if token_id == self.pad:
            return PAD_PIECE
        return self._pieces.get(self.to_checkpoint_id(token_id), "")


def load_sentencepiece_tokenizer(folder: Path, side: str = "source") -> SentencePieceTokenizer:
    """Load the tokenizer of one side of a Marian checkpoint.

    Args:
        folder: folder with `source.spm` or `target.spm`, and `vocab.json`.
        side: "source" or "target", whose vocabulary is `target_vocab.json` if this file exists.

    Raises:
        ValueError: a file is missing or damaged, or sentencepiece is not installed.
    """
    has_own = side == "target" and (folder / TARGET_VOCABULARY).is_file()
    vocabulary_path = folder / (TARGET_VOCABULARY if has_own else VOCABULARY)
    model_path = folder / MODEL_FILES[side]
    path = vocabulary_path
    with explain_missing_package():
        try:
            vocabulary = _parse_vocabulary(path.read_bytes())
            path = model_path
            model, processor = parse_sentencepiece_model(path.read_bytes())
            path = vocabulary_path
            return SentencePieceTokenizer(model, processor, vocabulary)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}; copy it from the checkpoint") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _parse_vocabulary(content: bytes) -> dict[str, int]:
    """Return the id of each piece; ValueError for anything else."""
    try:
        vocabulary = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{error}; copy it again") from None
    if not isinstance(vocabulary, dict):
        raise ValueError("expected an object with the id of each piece; copy it again")
    for piece, number in vocabulary.items():
        check_unicode(piece, "a piece")
        if type(number) is not int or not 0 <= number < MAX_ID:
            raise ValueError(
                f"the id of {piece!r} must be a whole number from 0 to {MAX_ID - 1}, got"
                f" {number!r}; copy the file again"
            )
    return vocabulary
