"""Tokenizers that come with public checkpoints, read from the files that `transformers` saves.

They are what they were released as; nothing is learnt. Of the ids of GPT-2, which has neither
padding nor a start, room is made for this library's: see `ByteTokenizer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from attention_zoo.data.vocabulary import END, PAD, SPECIAL_TOKENS, START, UNKNOWN, check_unicode
from attention_zoo.registry import Registry

MARK = "▁"
FILE = "tokenizer.json"
LONGEST_WORD = 100  # characters; the released BERTs read longer ones as unknown

PUBLIC_TOKENIZERS = Registry("tokenizer")
"""By the type of their model in a `tokenizer.json`."""


class PublicTokenizer:
    """What both kinds share; read one with `load_tokenizer`.

    Args:
        engine: of Hugging Face's `tokenizers`.

    Attributes:
        pad, unknown, start, end, mask: ids; mask is None where there is none.

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
    def vocabulary_size(self) -> int:
        """How many ids there are."""
        return int(self._engine.get_vocab_size(with_added_tokens=True))

    @property
    def lowercase(self) -> bool:
        """Whether texts lose their case."""
        return self._engine.normalizer is not None and self._normal("A") == "a"

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without start and end.

        Raises:
            ValueError: one string instead of a list; a text that is no Unicode (a lone surrogate).
        """
        if isinstance(texts, str):
            raise ValueError("encode takes a list of strings, not one string; write encode([text])")
        for number, text in enumerate(texts):
            check_unicode(text, number)
        rows = self._engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[self.ours(i) for i in row.ids] for row in rows]

    def decode(
        self, ids: Iterable[int], copied: Sequence[str] | None = None, past_end: bool = False
    ) -> str:
        """The text of the ids up to the end token; pads and starts leave no trace.

        With `past_end` it goes on after an end token, which is written out.
        """
        kept = []
        for token_id in map(int, ids):
            if token_id == self.end and not past_end:
                break
            if self._checked(token_id) not in (self.pad, self.start):
                kept.append(self.theirs(token_id))
        return str(self._engine.decode([i for i in kept if i >= 0], skip_special_tokens=False))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """A label for each id, to be read in a picture."""
        return [self._label(self._checked(int(token_id))) for token_id in ids]

    def decode_one(self, token_id: int) -> str:
        """What one id adds to a text, a mark for a space."""
        if token_id in (self.pad, self.start, self.end):
            return ""
        return self._surface(self._checked(token_id))

    def save(self, folder: str | Path) -> None:
        """Writes `tokenizer.json`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(self._engine.to_str(pretty=True) + "\n", encoding="utf-8")

    def ours(self, token_id: int) -> int:
        """The id here of an id there."""
        return token_id

    def theirs(self, token_id: int) -> int:
        """The id there of an id here, below 0 where it has none."""
        return token_id

    def _label(self, token_id: int) -> str:
        return str(self._engine.id_to_token(token_id))

    def _surface(self, token_id: int) -> str:
        return MARK + self._label(token_id)

    def _normal(self, text: str) -> str:
        return str(self._engine.normalizer.normalize_str(text))

    def _checked(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocabulary_size:
            raise ValueError(
                f"token id {token_id} is outside the vocabulary of {self.vocabulary_size} tokens"
            )
        return token_id

    def _special(self, token: str) -> int:
        found = self._engine.token_to_id(token)
        if found is None:
            raise ValueError(f"the vocabulary has no {token}, which this kind of tokenizer needs")
        return int(found)


@PUBLIC_TOKENIZERS.register("WordPiece")
class WordPieceTokenizer(PublicTokenizer):
    """BERT's: words cut into pieces, longest match first; pieces that continue begin with `##`.

    All ids are as released. `[CLS]` starts, `[SEP]` ends, `[MASK]` masks.
    """

    kind = "wordpiece"

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        self.pad, self.unknown, self.start, self.end, self.mask = map(self._special, names)
        if self.pad != PAD:
            raise ValueError(f"the vocabulary has [PAD] at {self.pad}; the library pads with {PAD}")

    def _surface(self, token_id: int) -> str:
        token = self._label(token_id)
        return token[2:] if token.startswith("##") else MARK + token


@PUBLIC_TOKENIZERS.register("BPE")
class ByteTokenizer(PublicTokenizer):
    """GPT-2's: merges of bytes, so that nothing is unknown.

    The library's four special tokens stand in front: id i there is i + 4 here, but for
    `<|endoftext|>`, which is the end token 3 here (and was the last one there).
    """

    kind = "bytes"
    pad, unknown, start, end, mask = PAD, UNKNOWN, START, END, None

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self._last = self._special("<|endoftext|>")
        size = engine.get_vocab_size(with_added_tokens=True)
        if self._last != size - 1:
            raise ValueError(
                f"<|endoftext|> is number {self._last} of {size}, but GPT-2 has it last; tokens"
                " were added to this vocabulary"
            )

    @property
    def vocabulary_size(self) -> int:
        return super().vocabulary_size + len(SPECIAL_TOKENS) - 1

    def ours(self, token_id: int) -> int:
        return END if token_id == self._last else token_id + len(SPECIAL_TOKENS)

    def theirs(self, token_id: int) -> int:
        return self._last if token_id == END else token_id - len(SPECIAL_TOKENS)

    def _label(self, token_id: int) -> str:
        if token_id < len(SPECIAL_TOKENS):
            return SPECIAL_TOKENS[token_id]
        text = self._engine.decode([self.theirs(token_id)])
        if "\ufffd" in text:  # a part of a character
            return str(self._engine.id_to_token(self.theirs(token_id)))
        return text.strip(" ") or MARK

    def _surface(self, token_id: int) -> str:
        if token_id < len(SPECIAL_TOKENS):
            return SPECIAL_TOKENS[token_id]
        return str(self._engine.decode([self.theirs(token_id)])).replace(" ", MARK)


def is_public_tokenizer(folder: Path) -> bool:
    """Whether a folder holds the files of a public tokenizer."""
    if (folder / FILE).is_file():
        return "model" in (_json(folder / FILE) or {})
    return (folder / "vocab.txt").is_file() or (folder / "merges.txt").is_file()


def load_public_tokenizer(folder: Path) -> PublicTokenizer:
    """The tokenizer of a public checkpoint.

    Args:
        folder: with `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`.

    Raises:
        ValueError: the files are damaged, or of a kind that is not known here.
    """
    path = next(folder / name for name in READERS if (folder / name).is_file())
    try:
        engine = READERS[path.name](folder)
        kind = type(engine.model).__name__
        made: PublicTokenizer = PUBLIC_TOKENIZERS.get(kind)(engine)
    except Exception as error:  # what `tokenizers` raises has no class of its own
        raise ValueError(f"{path}: {str(error).splitlines()[0]}") from None
    return made


def _from_json(folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(folder / FILE))


def _from_vocabulary(folder: Path) -> tokenizers.Tokenizer:
    """WordPiece as the released BERTs have it."""
    settings = _json(folder / "tokenizer_config.json") or {}
    lines = (folder / "vocab.txt").read_text("utf-8").removesuffix("\n").split("\n")
    ids = {line.removesuffix("\r"): number for number, line in enumerate(lines)}
    engine = tokenizers.Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD)
    )
    engine.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    engine.add_special_tokens(
        [AddedToken(token, special=True) for token in special if token in ids]
    )
    _add(engine, folder / "added_tokens.json")
    return engine


def _from_merges(folder: Path) -> tokenizers.Tokenizer:
    """Byte pairs as GPT-2 has them."""
    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    engine = tokenizers.Tokenizer(model)
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    if engine.token_to_id("<|endoftext|>") is not None:
        engine.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    _add(engine, folder / "added_tokens.json")
    return engine


def _add(engine: tokenizers.Tokenizer, path: Path) -> None:
    """The tokens behind those that were learnt, which such a file gives with their ids."""
    if not path.is_file():
        return
    added = _json(path)
    if added is None:
        raise ValueError(f"{path.name} beside it is damaged; copy it anew")
    for token, number in sorted(added.items(), key=lambda item: item[1]):
        if engine.token_to_id(token) is None:
            engine.add_tokens([AddedToken(token, normalized=True)])
        if engine.token_to_id(token) != number:
            raise ValueError(
                f"{path.name} has {token!r} as {number}, but there it would be"
                f" {engine.token_to_id(token)}; number added tokens from the size of the vocabulary"
            )


READERS: dict[str, Callable[[Path], tokenizers.Tokenizer]] = {
    FILE: _from_json,
    "vocab.txt": _from_vocabulary,
    "merges.txt": _from_merges,
}
"""By the file that they begin with, the best first."""


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
