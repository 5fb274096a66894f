"""Tokenizers of public checkpoints, loaded from the files that `transformers` saves.

They are not trained here. Ids of byte-level tokenizers are shifted, since 0 is padding in this
library: see `ByteLevelTokenizer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import tokenizers
from tokenizers import pre_tokenizers

from attention_zoo.data.reading import get_first_line
from attention_zoo.data.tokenizers.engine import EngineTokenizer
from attention_zoo.data.tokenizers.flat_ids import FlatIds
from attention_zoo.data.tokenizers.public_readers import (
    CONFIG,
    END_OF_TEXT,
    FILE,
    READERS,
    SETTINGS,
    is_engine_file,
    read_json,
    set_prefix_space,
)
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import (
    MODEL_FILES,
    SPECIAL_PIECES,
    T5_MODEL,
    load_sentencepiece_tokenizer,
    load_t5_tokenizer,
)
from attention_zoo.data.tokenizers.vocabulary import (
    END,
    MARK,
    PAD,
    SPECIAL_TOKENS,
    START,
    UNKNOWN,
    order_checkpoint_ids,
)
from attention_zoo.registry import Registry

BART_CLASSES = ("BartTokenizer", "BartTokenizerFast")

PUBLIC_TOKENIZERS = Registry("tokenizer")
"""Tokenizer classes by the type of the model in a `tokenizer.json`."""


class PublicTokenizer(EngineTokenizer):
    """Base class of the tokenizers of public checkpoints, loaded by `data.load_tokenizer`.

    Args:
        engine: the `tokenizers.Tokenizer` that does the work; its ids are those of the checkpoint.

    Attributes:
        pad, unknown, start, end, mask: token ids; mask is None if there is no mask token.

    Raises:
        ValueError: the engine lacks a special token.
    """

    kind: ClassVar[str]
    pad: int
    unknown: int
    start: int
    end: int
    mask: int | None

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        engine.no_padding()
        engine.no_truncation()
        self._engine = engine

    @property
    def lowercase(self) -> bool:
        """Whether texts are lowercased."""
        normalizer = self._engine.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    def decode(
        self, ids: Iterable[int], copied: Sequence[str] | None = None, past_end: bool = False
    ) -> str:
        """Return the text of the ids up to the end token, without padding and start tokens.

        `text_start` is a start token too. With `past_end`, end tokens do not stop decoding and are
        part of the text. `copied` is accepted for compatibility with `Tokenizer.decode` and
        ignored.
        """
        checkpoint_ids = []
        for token_id in map(int, ids):
            if token_id == self.end and not past_end:
                break
            checkpoint_id = self.to_checkpoint_id(self._check_id(token_id))
            if token_id not in (self.pad, self.start, self.text_start) and checkpoint_id >= 0:
                checkpoint_ids.append(checkpoint_id)
        return str(self._engine.decode(checkpoint_ids, skip_special_tokens=False))

    def tokens(self, ids: Iterable[int], copied: Sequence[str] | None = None) -> list[str]:
        """Return a label for each id, for plots; `copied` is ignored, as in `decode`."""
        return [self._get_label(self._check_id(int(token_id))) for token_id in ids]

    def decode_one(self, token_id: int) -> str:
        """Return the text that one id adds, with "▁" for a space."""
        if token_id in (self.pad, self.start, self.end, self.text_start):
            return ""
        return self._get_surface(self._check_id(token_id))

    def surfaces(self, text: str) -> list[str]:
        """Return the text of each token of `encode`, with "▁" for a space."""
        (ids,) = self.encode([text])
        return [self._get_surface(token_id) for token_id in ids]

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json` into a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(self._engine.to_str(pretty=True) + "\n", encoding="utf-8")

    def from_checkpoint_id(self, token_id: int) -> int:
        """Convert a token id of the checkpoint to the id in this library."""
        return token_id

    def to_checkpoint_id(self, token_id: int) -> int:
        """Convert a token id of this library to the checkpoint's id, negative if it has none."""
        return token_id

    def _get_label(self, token_id: int) -> str:
        return str(self._engine.id_to_token(token_id))

    def _get_surface(self, token_id: int) -> str:
        return MARK + self._get_label(token_id)

    def _get_special_id(self, token: str) -> int:
        token_id = self._engine.token_to_id(token)
        if token_id is None:
            raise ValueError(
                f"the vocabulary has no {token}, which a {self.kind} tokenizer requires"
            )
        return int(token_id)


@PUBLIC_TOKENIZERS.register("WordPiece")
class WordPieceTokenizer(PublicTokenizer):
    """WordPiece tokenizer of BERT: longest match first; continuing pieces begin with `##`.

    All ids are as released. `[CLS]` is the start token, `[SEP]` the end token and `[MASK]` the mask
    token.
    """

    kind = "wordpiece"

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        self.pad, self.unknown, self.start, self.end, self.mask = map(self._get_special_id, names)
        if self.pad != PAD:
            raise ValueError(f"the id of [PAD] must be {PAD}, got {self.pad}")

    def _get_surface(self, token_id: int) -> str:
        token = self._get_label(token_id)
        return token[2:] if token.startswith("##") else MARK + token


class ByteLevelTokenizer(PublicTokenizer):
    """Base class of byte-level BPE tokenizers, which can encode any text.

    Id i of the checkpoint is `i + shift` here, since 0 is padding in this library: no id of the
    checkpoint stands for padding. The first `shift` ids are special tokens of this library.
    """

    shift: ClassVar[int]

    @property
    def adds_prefix_space(self) -> bool:
        """Whether a text gets a space before it, as its other words have one."""
        splitter = self._engine.pre_tokenizer
        return isinstance(splitter, pre_tokenizers.ByteLevel) and bool(splitter.add_prefix_space)

    def without_prefix_space(self) -> Self:
        """Return this tokenizer, or a copy that adds no space before a text."""
        if not self.adds_prefix_space:
            return self
        engine = tokenizers.Tokenizer.from_str(self._engine.to_str())
        set_prefix_space(engine, False)
        return type(self)(engine)

    @property
    def vocabulary_size(self) -> int:
        return super().vocabulary_size + self.shift

    def _encode_chunk(self, texts: Sequence[str]) -> FlatIds:
        ids, lengths = super()._encode_chunk(texts)
        return FlatIds(ids + np.int32(self.shift), lengths)

    def from_checkpoint_id(self, token_id: int) -> int:
        return token_id + self.shift

    def to_checkpoint_id(self, token_id: int) -> int:
        return token_id - self.shift

    def _get_label(self, token_id: int) -> str:
        if token_id < self.shift:
            return SPECIAL_TOKENS[token_id]
        text = self._decode_token(token_id)
        if "\ufffd" in text:  # part of a multi-byte character
            return str(self._engine.id_to_token(self.to_checkpoint_id(token_id)))
        return text.strip(" ") or MARK

    def _get_surface(self, token_id: int) -> str:
        if token_id < self.shift:
            return SPECIAL_TOKENS[token_id]
        return self._decode_token(token_id).replace(" ", MARK)

    def _decode_token(self, token_id: int) -> str:
        ids = [self.to_checkpoint_id(token_id)]
        return str(self._engine.decode(ids, skip_special_tokens=False))


@PUBLIC_TOKENIZERS.register("BPE")
class ByteTokenizer(ByteLevelTokenizer):
    """Byte-level BPE tokenizer of GPT-2, whose unknown token (1) never occurs.

    The library's four special tokens come first. `<|endoftext|>`, the last id of GPT-2, is the end
    token 3 here.
    """

    kind = "bytes"
    pad, unknown, start, end, mask = PAD, UNKNOWN, START, END, None
    shift = len(SPECIAL_TOKENS)

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self._last = self._get_special_id(END_OF_TEXT)
        size = engine.get_vocab_size(with_added_tokens=True)
        if self._last != size - 1:
            raise ValueError(
                f"{END_OF_TEXT} must be the last of {size} token ids, as in GPT-2, got id"
                f" {self._last}; remove the tokens that were added to the vocabulary"
            )

    @property
    def vocabulary_size(self) -> int:
        return super().vocabulary_size - 1

    def _encode_chunk(self, texts: Sequence[str]) -> FlatIds:
        ids, lengths = super()._encode_chunk(texts)
        return FlatIds(np.where(ids == self._last + self.shift, END, ids), lengths)

    def from_checkpoint_id(self, token_id: int) -> int:
        return END if token_id == self._last else super().from_checkpoint_id(token_id)

    def to_checkpoint_id(self, token_id: int) -> int:
        return self._last if token_id == END else super().to_checkpoint_id(token_id)


class RobertaTokenizer(ByteLevelTokenizer):
    """Byte-level BPE tokenizer of RoBERTa.

    `<s>` is the start token, `</s>` the end token and `<mask>`, which takes the white space before
    it, the mask token. The unknown token and `<pad>` occur only where a text contains them.
    """

    kind = "roberta"
    pad = PAD
    shift = 1

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        ids = map(self._get_special_id, ("<unk>", "<s>", "</s>", "<mask>"))
        self.unknown, self.start, self.end, self.mask = (i + self.shift for i in ids)


class BartTokenizer(ByteLevelTokenizer):
    """Byte-level BPE tokenizer of BART, with special tokens as in `SentencePieceTokenizer`.

    The first ids are the library's special tokens: 0 is padding, which no id of the checkpoint
    stands for, 1 `<unk>`, 2 `<pad>`, which is the start token, and 3 `</s>`, the end token. The
    other ids of the checkpoint follow in order. `<mask>` takes the white space before it.

    Attributes:
        text_start: id of `<s>`, with which every text begins in the inputs of the model; `encode`
            does not add it.
    """

    kind = "bart"
    pad, unknown, start, end = PAD, UNKNOWN, START, END
    text_start: int
    shift = 1

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        special = [self._get_special_id(piece) for piece in SPECIAL_PIECES]
        size = engine.get_vocab_size(with_added_tokens=True)
        self._checkpoint_ids = order_checkpoint_ids(special, size)
        self._ids = np.argsort(self._checkpoint_ids)[self.shift :].astype("int32")
        self.text_start, self.mask = (
            self.from_checkpoint_id(self._get_special_id(name)) for name in ("<s>", "<mask>")
        )

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json`, and `tokenizer_config.json` with the class, into a folder."""
        super().save(folder)
        content = json.dumps({"tokenizer_class": BART_CLASSES[0]}, indent=2) + "\n"
        (Path(folder) / SETTINGS).write_text(content, encoding="utf-8")

    def _encode_chunk(self, texts: Sequence[str]) -> FlatIds:
        ids, lengths = super()._encode_chunk(texts)
        return FlatIds(self._ids[ids - self.shift], lengths)

    def from_checkpoint_id(self, token_id: int) -> int:
        return int(self._ids[token_id])

    def to_checkpoint_id(self, token_id: int) -> int:
        return self._checkpoint_ids[token_id]


def is_public_tokenizer(folder: Path) -> bool:
    """Return whether a folder contains the files of a public tokenizer."""
    if (folder / FILE).is_file():
        return is_engine_file(folder / FILE)
    names = ("vocab.txt", "merges.txt", MODEL_FILES["source"], T5_MODEL)
    return any((folder / name).is_file() for name in names)


def load_public_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a public checkpoint: a `PublicTokenizer` or `SentencePieceTokenizer`.

    A Marian checkpoint has two; this is the one of the source language. A byte-level tokenizer is
    that of BART if `model_type` in `config.json` or `tokenizer_class` in `tokenizer_config.json`
    says so.

    Args:
        folder: folder with `source.spm` and `vocab.json` (Marian), or `spiece.model` (T5), or
            `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`, in this order of
            preference.

    Raises:
        ValueError: the files are damaged, or the kind of tokenizer is not supported.
    """
    if (folder / MODEL_FILES["source"]).is_file():
        return load_sentencepiece_tokenizer(folder)
    if (folder / T5_MODEL).is_file():
        return load_t5_tokenizer(folder)
    path = next(folder / name for name in READERS if (folder / name).is_file())
    try:
        engine = READERS[path.name](folder)
        settings = read_json(folder / SETTINGS) or {}
        if settings.get("add_prefix_space") is not None:
            set_prefix_space(engine, bool(settings["add_prefix_space"]))
        tokenizer: PublicTokenizer = _find_class(engine, folder)(engine)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # `tokenizers` raises `Exception`, and `PanicException`
        raise ValueError(f"{path}: {get_first_line(error)}") from None
    return tokenizer


def _find_class(engine: tokenizers.Tokenizer, folder: Path) -> Any:
    """Return the class of the tokenizer with this engine; ValueError if there is none."""
    kind = type(engine.model).__name__
    if kind == "Unigram":
        raise ValueError(
            f"a Unigram tokenizer requires {T5_MODEL} in its folder; copy it from the checkpoint"
        )
    if kind == "BPE":
        config, settings = read_json(folder / CONFIG) or {}, read_json(folder / SETTINGS) or {}
        if config.get("model_type") == "bart" or settings.get("tokenizer_class") in BART_CLASSES:
            return BartTokenizer
        if engine.token_to_id("</s>") is not None:
            return RobertaTokenizer
    return PUBLIC_TOKENIZERS.get(kind)
