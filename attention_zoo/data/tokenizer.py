"""Text to token ids and back: subwords, words, characters, or what white space parts.

A tokenizer is its kind, its vocabulary and one switch (`lowercase`); nothing else is learnt or
stored. Everything it does can be said in RE2 regular expressions and a longest-match-first search,
so that the same ids can be computed by core TensorFlow ops inside an exported graph:

1. Each run of white space (`WHITE_SPACE`) becomes one mark `▁`; marks at both ends are removed.
2. With `lowercase`, each character is lowercased on its own (no rule looks at its neighbours).
3. All but characters: a text that does not begin with a CJK character gets a mark in front, so that
   a word is the same token at the start of a sentence as inside it.
4. The text is cut by the kind's `pattern`. For subwords and words a piece is a run of at most
   `LONGEST_RUN` word characters, or any other single character (digit, punctuation mark, symbol,
   CJK character), each with the mark before it if there is one. Characters are their own pieces;
   what white space parts is one, however long.
5. All but subwords are looked up; subwords are found in the piece longest match first, and a
   piece that cannot be covered whole is `<unk>`.

No Unicode normalisation is done (core TensorFlow has none): what goes in comes out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from attention_zoo.data.public_tokenizers import is_public_tokenizer, load_public_tokenizer
from attention_zoo.data.vocabulary import (
    END,
    PAD,
    SPECIAL_TOKENS,
    START,
    UNKNOWN,
    check_unicode,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from attention_zoo.registry import Registry

MARK = "▁"
LONGEST_RUN = 64
# The inside of character classes, valid in RE2, Oniguruma and Python alike. White space is what
# `str.split()` takes for it, and the mark itself.
WHITE_SPACE = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000" + MARK
CJK = "々-〇ぁ-ヿㇰ-ㇿ㐀-䶿一-鿿\uf900-\ufaffｦ-ﾟ\U00020000-\U000323af"
NOT_IN_WORDS = rf"{MARK}{CJK}\p{{P}}\p{{S}}\p{{N}}\p{{Cc}}\p{{Cf}}\p{{Co}}"
WORD_PATTERN = f"{MARK}?(?:[^{NOT_IN_WORDS}]{{1,{LONGEST_RUN}}}|.)"
CHARACTER_PATTERN = "."
WHITESPACE_PATTERN = f"{MARK}?[^{MARK}]+"

TOKENIZERS = Registry("tokenizer")


class Tokenizer:
    """What all kinds share; build one with `train_tokenizer` or `load_tokenizer`.

    Args:
        vocabulary: the tokens in id order, beginning with `<pad>`, `<unk>`, `<s>`, `</s>`.
        lowercase: lowercase every text first (then decoding gives lowercase text).

    Raises:
        ValueError: the vocabulary is none (see `check_vocabulary`).
    """

    kind: ClassVar[str]
    pattern: ClassVar[str] = WORD_PATTERN
    marks_start: ClassVar[bool] = True
    pad, unknown, start, end = PAD, UNKNOWN, START, END
    mask: int | None = None

    def __init__(self, vocabulary: Sequence[str], lowercase: bool = False) -> None:
        self.vocabulary = check_vocabulary(list(vocabulary), "vocabulary")
        self.lowercase = lowercase
        self._engine = self.pipeline(lowercase)
        self._engine.model = self.model({token: i for i, token in enumerate(self.vocabulary)})
        self._surfaces = list(self.vocabulary)
        self._surfaces[PAD] = self._surfaces[START] = self._surfaces[END] = ""
        self._surfaces[UNKNOWN] = (MARK if self.marks_start else "") + SPECIAL_TOKENS[UNKNOWN]

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are."""
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without start and end.

        Raises:
            ValueError: one string instead of a list; a text that is no Unicode (a lone surrogate).
        """
        if isinstance(texts, str):
            raise ValueError("encode takes a list of strings, not one string; write encode([text])")
        for i, text in enumerate(texts):
            if not text.isascii():
                check_unicode(text, i)
        return [row.ids for row in self._engine.encode_batch_fast(list(texts))]

    def decode(
        self, ids: Iterable[int], copied: Sequence[str] | None = None, past_end: bool = False
    ) -> str:
        """The text of the ids up to the end token; pads and starts leave no trace.

        Args:
            ids: token ids.
            copied: what stands for each unknown token, in order, instead of `<unk>`; with its mark,
                as `surfaces` gives it.
            past_end: go on after an end token, which leaves no trace either.
        """
        surfaces, copies = [], iter(copied or ())
        for token_id in ids:
            if token_id == END and not past_end:
                break
            surface = self._surfaces[self._checked(token_id)]
            surfaces.append(next(copies, surface) if token_id == UNKNOWN else surface)
        text = "".join(surfaces).replace(MARK, " ")
        return text.removeprefix(" ") if self.marks_start else text

    def decode_one(self, token_id: int) -> str:
        """What one id adds to a text, a mark for a space."""
        return self._surfaces[self._checked(token_id)]

    def tokens(self, ids: Iterable[int], copied: Sequence[str] | None = None) -> list[str]:
        """A label for each id, to be read in a picture: the token without its mark."""
        copies = iter(copied or ())
        tokens = [
            next(copies, token) if token_id == UNKNOWN else token
            for token_id in ids
            for token in [self.vocabulary[self._checked(token_id)]]
        ]
        return [token.removeprefix(MARK) or MARK for token in tokens]

    def surfaces(self, text: str) -> list[str]:
        """What each token of `encode` stands for in the text, its mark included.

        That is the token itself, or the whole piece where it is unknown.
        """
        normal = self._engine.normalizer.normalize_str(text)
        (ids,) = self.encode([text])
        found: list[str] = []
        left = iter(ids)
        for piece, _ in self._engine.pre_tokenizer.pre_tokenize_str(normal):
            size = 0
            while size < len(piece):
                token_id = next(left)
                found.append(piece if token_id == UNKNOWN else self.vocabulary[token_id])
                size += len(found[-1])
        return found

    def save(self, folder: str | Path) -> None:
        """Write `vocabulary.txt` (one token a line) and `tokenizer.json` (kind, lowercase)."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(folder / "vocabulary.txt", self.vocabulary)
        settings = json.dumps({"kind": self.kind, "lowercase": self.lowercase}, indent=2)
        (folder / "tokenizer.json").write_text(settings + "\n", encoding="utf-8")

    @classmethod
    def pipeline(cls, lowercase: bool) -> tokenizers.Tokenizer:
        """Steps 1 to 4, with an empty model."""
        steps: list[Any] = [
            normalizers.Replace(Regex(f"[{WHITE_SPACE}]+"), MARK),
            normalizers.Replace(Regex(rf"\A{MARK}|{MARK}\z"), ""),
        ]
        if lowercase:
            steps.append(normalizers.Lowercase())
        if cls.marks_start:
            steps.append(normalizers.Prepend(MARK))
            steps.append(normalizers.Replace(Regex(rf"\A{MARK}(?=[{CJK}])"), ""))
        unknown = {SPECIAL_TOKENS[UNKNOWN]: 0}
        engine = tokenizers.Tokenizer(models.WordLevel(unknown, SPECIAL_TOKENS[UNKNOWN]))
        engine.normalizer = normalizers.Sequence(steps)
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(cls.pattern), "isolated")
        return engine

    @classmethod
    def model(cls, ids: dict[str, int]) -> models.Model:
        """Step 5: from a piece to ids."""
        return models.WordLevel(ids, SPECIAL_TOKENS[UNKNOWN])

    @classmethod
    def learn(cls, texts: Sequence[str], size: int, lowercase: bool) -> list[str]:
        """At most `size` tokens for these texts: the most frequent, ties in code order."""
        engine, counts = cls.pipeline(lowercase), Counter[str]()
        for text in texts:
            normal = engine.normalizer.normalize_str(text)
            counts.update(piece for piece, _ in engine.pre_tokenizer.pre_tokenize_str(normal))
        return [*SPECIAL_TOKENS, *_most_frequent(counts, size - len(SPECIAL_TOKENS))]

    def _checked(self, token_id: int) -> int:
        if not 0 <= token_id < len(self.vocabulary):
            raise ValueError(
                f"token id {token_id} is outside the vocabulary of {len(self.vocabulary)} tokens"
            )
        return token_id


@TOKENIZERS.register("word")
class WordTokenizer(Tokenizer):
    """Whole pieces; the most frequent have a token, the others are unknown."""

    kind = "word"


@TOKENIZERS.register("character")
class CharacterTokenizer(Tokenizer):
    """Every character is a token, a space is `▁`."""

    kind = "character"
    pattern = CHARACTER_PATTERN
    marks_start = False


@TOKENIZERS.register("whitespace")
class WhitespaceTokenizer(Tokenizer):
    """What white space parts is whole: for texts that are split into words already."""

    kind = "whitespace"
    pattern = WHITESPACE_PATTERN


@TOKENIZERS.register("subword")
class SubwordTokenizer(Tokenizer):
    """Pieces cut into subwords, longest match first; no sign stands between subwords of a piece.

    The vocabulary is learnt by merging the most frequent pairs inside pieces (Sennrich, Haddow and
    Birch 2016, arXiv:1508.07909); all characters of the texts are in it as far as its size allows.
    """

    kind = "subword"

    @classmethod
    def model(cls, ids: dict[str, int]) -> models.Model:
        return models.WordPiece(
            ids,
            unk_token=SPECIAL_TOKENS[UNKNOWN],
            continuing_subword_prefix="",
            max_input_chars_per_word=LONGEST_RUN + 1,
        )

    @classmethod
    def learn(cls, texts: Sequence[str], size: int, lowercase: bool) -> list[str]:
        engine, characters = cls.pipeline(lowercase), Counter[str]()
        engine.model = cls.model({SPECIAL_TOKENS[UNKNOWN]: 0})
        for text in texts:
            characters.update(engine.normalizer.normalize_str(text))
        alphabet = _most_frequent(characters, size - len(SPECIAL_TOKENS))
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            continuing_subword_prefix="",
            show_progress=False,
        )
        engine.train_from_iterator(texts, trainer)
        ids = engine.get_vocab()
        return sorted(ids, key=lambda token: ids[token])


def train_tokenizer(
    kind: str, texts: Sequence[str], vocabulary_size: int = 8000, lowercase: bool = False
) -> Tokenizer:
    """A tokenizer whose vocabulary is learnt from texts; the same texts give the same one.

    Args:
        kind: "subword", "word", "character" or "whitespace".
        texts: the texts to learn from.
        vocabulary_size: the most tokens there may be, the four special ones included.
        lowercase: lowercase every text first.

    Raises:
        ValueError: an unknown kind, no text to learn from, no room for a token.
    """
    cls = _kind(kind)
    if vocabulary_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"vocabulary_size={vocabulary_size} leaves no room for a token beside the"
            f" {len(SPECIAL_TOKENS)} special ones; give a larger one"
        )
    for i, text in enumerate(texts):
        check_unicode(text, i)
    if not any(text.strip(f"{MARK} \n") for text in texts):
        raise ValueError("no text to learn a vocabulary from; give at least one line with words")
    return cls(cls.learn(texts, vocabulary_size, lowercase), lowercase)


def load_tokenizer(folder: str | Path) -> Any:
    """The `Tokenizer` that `save` wrote into a folder, or a public checkpoint's.

    Raises:
        ValueError: it is damaged; with file:line.
    """
    if is_public_tokenizer(Path(folder)):
        return load_public_tokenizer(Path(folder))
    path = Path(folder) / "tokenizer.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        kind, lowercase = settings["kind"], settings["lowercase"]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; expected a tokenizer's folder") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path}: not the settings of a tokenizer; expected"
            ' {"kind": "word", "lowercase": false}'
        ) from None
    if kind not in TOKENIZERS or not isinstance(lowercase, bool):
        raise ValueError(
            f"{path}: kind={kind!r}, lowercase={lowercase!r}; expected one of"
            f" {', '.join(TOKENIZERS.names())} and true or false"
        )
    vocabulary = read_vocabulary(Path(folder) / "vocabulary.txt")
    return _kind(kind)(vocabulary, lowercase)


def _kind(name: str) -> type[Tokenizer]:
    return cast(type[Tokenizer], TOKENIZERS.get(name))


def _most_frequent(counts: Counter[str], size: int) -> list[str]:
    return sorted(counts, key=lambda token: (-counts[token], token))[:size]
