"""SentencePiece tokenizer of Marian and T5: pieces of a model file, with ids of a vocabulary."""

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
from attention_zoo.data.tokenizers.public_readers import (
    CONFIG,
    SETTINGS,
    read_added_tokens,
    read_json,
)
from attention_zoo.data.tokenizers.sentencepiece_model import (
    MAX_MODEL_BYTES,
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
    order_checkpoint_ids,
)
from attention_zoo.extras import explain_missing_package
from attention_zoo.json_files import MAX_VOCABULARY_BYTES, read_limited, read_strict_json

MODEL_FILES = {"source": "source.spm", "target": "target.spm"}
VOCABULARY = "vocab.json"
TARGET_VOCABULARY = "target_vocab.json"
"""The vocabulary of the target language, if it is not the same."""
UNKNOWN_PIECE, END_PIECE, PAD_PIECE = "<unk>", "</s>", "<pad>"
MAX_ID = 1 << 20
"""Maximum of an id; each id up to the largest needs memory, whether a piece has it or not."""
SPECIAL_PIECES = (UNKNOWN_PIECE, PAD_PIECE, END_PIECE)
"""The pieces of the tokens 1, 2 and 3."""
T5_MODEL = "spiece.model"
SENTINELS = 100
"""Number of sentinel tokens of T5, unless `extra_ids` of `tokenizer_config.json` is another."""
SENTINEL = re.compile(r"<extra_id_\d+>", re.ASCII)
"""A token that stands for a span of the text in the pretraining of T5."""
LANGUAGE_CODE = re.compile(r">>[\w-]+<<", re.ASCII)
"""A piece that names the target language, such as `>>fra<<`."""


class SentencePieceTokenizer(EngineTokenizer):
    """SentencePiece tokenizer with the vocabulary of Marian or T5, loaded by `data.load_tokenizer`.

    The first ids are the library's special tokens: 0 is padding, which no id of the checkpoint
    stands for, 1 `<unk>`, 2 `<pad>`, which is the start token, and 3 `</s>`, the end token. The
    other ids of the checkpoint follow in order.

    A language code of the vocabulary, such as `>>fra<<`, is one token at the start of a text or
    after another special piece. Elsewhere, and if the vocabulary lacks it, it is ordinary text;
    `transformers` removes it, or makes it one unknown token.

    A sentinel token of T5, such as `<extra_id_0>`, is one token anywhere, if the vocabulary has it.
    The ids of texts are those of SentencePiece. `T5Tokenizer` of `transformers` 5 normalizes
    differently: it drops combining marks after a character that a rule replaces, does not compose a
    letter that has several of them, and splits words at U+0085.

    Args:
        model: the model that splits texts into pieces.
        processor: the `SentencePieceProcessor` of this model.
        vocabulary: id of each piece in the checkpoint; an id that no piece has adds no text.

    Attributes:
        pad, unknown, start, end, mask: token ids; mask is None.
        text_start: None: texts begin with no special token.
        special_pieces: pieces that are one token anywhere in a text.
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
                f"there is no {missing[0]}, which Marian and T5 require; copy the file from a"
                " checkpoint of these models"
            )
        special = [vocabulary[piece] for piece in SPECIAL_PIECES]
        self._checkpoint_ids = order_checkpoint_ids(special, max(self._pieces) + 1)
        self._ids = {number: token_id for token_id, number in enumerate(self._checkpoint_ids)}
        self.special_pieces = [*SPECIAL_PIECES, *filter(SENTINEL.fullmatch, vocabulary)]
        self._special = re.compile("|".join(self.special_pieces))
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
            vocabulary = _read_vocabulary(path)
            path = model_path
            model, processor = parse_sentencepiece_model(read_limited(path, MAX_MODEL_BYTES))
            path = vocabulary_path
            return SentencePieceTokenizer(model, processor, vocabulary)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}; copy it from the checkpoint") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def load_t5_tokenizer(folder: Path) -> SentencePieceTokenizer:
    """Load the tokenizer of a T5 checkpoint.

    The sentinel tokens follow the pieces of the model, and `<extra_id_0>` is the last of them. A
    larger `vocab_size` of `config.json` adds ids without a piece.

    Args:
        folder: folder with `spiece.model`, and optionally `tokenizer_config.json` and
            `config.json`.

    Raises:
        ValueError: a file is damaged, `vocab_size` is smaller than the number of pieces and
            sentinel tokens, or sentencepiece is not installed.
    """
    path = folder / T5_MODEL
    with explain_missing_package():
        try:
            model, processor = parse_sentencepiece_model(read_limited(path, MAX_MODEL_BYTES))
            pieces = len(model.pieces)
            path = folder / SETTINGS
            sentinels = _read_number(path, "extra_ids", SENTINELS, 0, "copy the file again")
            size = pieces + sentinels
            vocabulary = {piece: number for number, piece in enumerate(model.pieces)}
            vocabulary |= {f"<extra_id_{i}>": size - 1 - i for i in range(sentinels)}
            _check_added_tokens(read_added_tokens(folder), vocabulary)
            path = folder / CONFIG
            hint = (
                f"{T5_MODEL} has {pieces} pieces, and {sentinels} sentinel tokens follow them; copy"
                " all files from the same checkpoint"
            )
            padded_size = _read_number(path, "vocab_size", size, size, hint)
            if padded_size > size:
                vocabulary[""] = padded_size - 1
            path = folder / T5_MODEL
            return SentencePieceTokenizer(model, processor, vocabulary)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}; copy it from the checkpoint") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _check_added_tokens(added: dict[str, int], vocabulary: dict[str, int]) -> None:
    """Raise ValueError for an added token that the vocabulary lacks, or has with another id."""
    for token, number in added.items():
        if vocabulary.get(token) != number:
            raise ValueError(
                f"added token {token!r} (id {number}) is not supported: it is no piece of the model"
                " and no sentinel token"
            )


def _read_number(path: Path, name: str, default: int, least: int, hint: str) -> int:
    """Return a whole number of a JSON file, `default` if it is missing.

    Raises:
        ValueError: the file is damaged, or the number is out of range.
    """
    content = read_json(path)
    if content is None and path.is_file():
        raise ValueError("not a JSON object; copy it again")
    number = (content or {}).get(name)
    if number is None:
        return default
    if type(number) is not int or not least <= number <= MAX_ID:
        raise ValueError(
            f"{name} must be a whole number from {least} to {MAX_ID}, got {number!r}; {hint}"
        )
    return number


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Return the id of each piece; ValueError for anything else."""
    try:
        vocabulary = read_strict_json(path, MAX_VOCABULARY_BYTES)
    except ValueError as error:
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
