"""Tokenizers of text: subwords, words, characters, or words between white space.

A tokenizer is defined by its kind, its vocabulary and one option (`lowercase`); nothing else is
learned or stored. Each step is an RE2 regular expression or a longest-match-first search, so that
core TensorFlow ops can compute the same ids inside an exported graph:

0. The text is normalized to Unicode NFC, so that a letter with an accent is one character, however
   it was typed.
1. Each run of white space (`WHITE_SPACE`) becomes one mark `▁`; marks at both ends are removed.
2. With `lowercase`, each character is lowercased independently of its neighbours.
3. All kinds except "character": a mark is put before a text, unless it begins with a CJK character,
   so that a word is the same token at the start of a sentence as inside it.
4. The text is split by the kind's `pattern`. For subwords and words, a piece is a run of at most
   `MAX_RUN` word characters, or any other single character (digit, punctuation mark, symbol,
   CJK character), each with the mark before it if there is one. For "character", each character is
   a piece. For "whitespace", a piece is a run between white space, of any length.
5. Pieces are looked up in the vocabulary. For "subword", a piece is split longest match first, and
   is `<unk>` if the vocabulary does not cover all of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from attention_zoo.data.progress import log_batches
from attention_zoo.data.tokenizers.engine import EngineTokenizer
from attention_zoo.data.tokenizers.flat_ids import FlatIds
from attention_zoo.data.tokenizers.public_tokenizers import (
    is_public_tokenizer,
    load_public_tokenizer,
)
from attention_zoo.data.tokenizers.vocabulary import (
    END,
    MARK,
    PAD,
    SPECIAL_TOKENS,
    START,
    UNKNOWN,
    check_all_unicode,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from attention_zoo.data.tokenizers.word_cache import WordCache, split_white_space
from attention_zoo.files import check_format_version
from attention_zoo.json_files import read_strict_json
from attention_zoo.registry import Registry

MAX_RUN = 64
# The inside of character classes. WHITE_SPACE and CJK are valid in RE2, Oniguruma and Python.
# WHITE_SPACE is that of `str.split()`, and the mark.
WHITE_SPACE = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000" + MARK
CJK = "々-〇ぁ-ヿㇰ-ㇿ㐀-䶿一-鿿\uf900-\ufaffｦ-ﾟ\U00020000-\U000323af"
NOT_IN_WORDS = rf"{MARK}{CJK}\p{{P}}\p{{S}}\p{{N}}\p{{Cc}}\p{{Cf}}\p{{Co}}"
WORD_PATTERN = f"{MARK}?(?:[^{NOT_IN_WORDS}]{{1,{MAX_RUN}}}|.)"
CHARACTER_PATTERN = "."
WHITESPACE_PATTERN = f"{MARK}?[^{MARK}]+"

FORMAT_VERSION = 1

COUNT_BATCH = 1000
"""Number of texts whose words are counted at once."""

MAX_UNKNOWN_WORDS = 100_000
"""Number of words whose unknown pieces are kept."""

MAX_REPEATS = 100
"""Maximum number of times that a piece is repeated in one text for the trainer."""

TOKENIZERS = Registry("tokenizer")


class Tokenizer(EngineTokenizer):
    """Base class of tokenizers; create one with `train_tokenizer` or `load_tokenizer`.

    Args:
        vocabulary: the tokens in id order, beginning with `<pad>`, `<unk>`, `<s>`, `</s>`.
        lowercase: lowercase every text first (then decoding gives lowercase text).

    Raises:
        ValueError: the vocabulary is invalid (see `check_vocabulary`).
    """

    kind: ClassVar[str]
    pattern: ClassVar[str] = WORD_PATTERN
    marks_start: ClassVar[bool] = True
    pad, unknown, start, end = PAD, UNKNOWN, START, END
    mask: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raise TypeError for a subclass that overrides only one of the two pipelines."""
        super().__init_subclass__(**kwargs)
        if ("make_pipeline" in vars(cls)) != ("make_later_pipeline" in vars(cls)):
            raise TypeError(f"{cls.__name__} must override make_pipeline and make_later_pipeline")

    def __init__(self, vocabulary: Sequence[str], lowercase: bool = False) -> None:
        self.vocabulary = check_vocabulary(list(vocabulary), "vocabulary")
        self.lowercase = lowercase
        self._engine = self.make_pipeline(lowercase)
        self._later_engine = self.make_later_pipeline(lowercase)
        model = self.make_model({token: i for i, token in enumerate(self.vocabulary)})
        self._engine.model = self._later_engine.model = model
        self._words = WordCache(self._engine, self._later_engine)
        self._unknown_pieces: dict[str, list[str]] = {}
        self._surfaces = list(self.vocabulary)
        self._surfaces[PAD] = self._surfaces[START] = self._surfaces[END] = ""
        self._surfaces[UNKNOWN] = (MARK if self.marks_start else "") + SPECIAL_TOKENS[UNKNOWN]

    def _encode_chunk(self, texts: Sequence[str]) -> FlatIds:
        rows = [split_white_space(text) for text in texts]
        starts = np.cumsum([0, *map(len, rows[:-1])])
        ids, lengths = self._words.encode([*chain.from_iterable(rows)])
        return FlatIds(ids, np.add.reduceat(lengths, starts))

    def decode(
        self, ids: Iterable[int], copied: Sequence[str] | None = None, past_end: bool = False
    ) -> str:
        """Return the text of the ids up to the end token, without padding and start tokens.

        Args:
            ids: token ids.
            copied: replacements of the unknown tokens, in order, instead of `<unk>`; each with its
                mark, as from `surfaces`.
            past_end: continue after an end token, which adds no text either.
        """
        surfaces, copies = [], iter(copied or ())
        for token_id in ids:
            if token_id == END and not past_end:
                break
            surface = self._surfaces[self._check_id(token_id)]
            surfaces.append(next(copies, surface) if token_id == UNKNOWN else surface)
        text = "".join(surfaces).replace(MARK, " ")
        return text.removeprefix(" ") if self.marks_start else text

    def decode_one(self, token_id: int) -> str:
        """Return the text that one id adds, with a mark for a space."""
        return self._surfaces[self._check_id(token_id)]

    def tokens(self, ids: Iterable[int], copied: Sequence[str] | None = None) -> list[str]:
        """Return a label for each id, for plots: the token without its mark."""
        copies = iter(copied or ())
        tokens = [
            next(copies, token) if token_id == UNKNOWN else token
            for token_id in ids
            for token in [self.vocabulary[self._check_id(token_id)]]
        ]
        return [token.removeprefix(MARK) or MARK for token in tokens]

    def surfaces(self, text: str) -> list[str]:
        """Return the text that each token of `encode` stands for, including its mark.

        This is the token itself, or the whole piece if it is unknown.
        """
        (ids,) = self.encode([text])
        unknown = iter(self.unknown_surfaces(text))
        return [next(unknown) if one == UNKNOWN else self.vocabulary[one] for one in ids]

    def unknown_surfaces(self, text: str) -> list[str]:
        """Return the pieces of the unknown tokens of `encode`, in order, including their marks."""
        words = split_white_space(text)
        ids, lengths = self._words.encode(words)
        ends, surfaces = np.cumsum(lengths), list[str]()
        rows = np.searchsorted(ends, np.flatnonzero(ids == UNKNOWN), side="right")
        for row in np.unique(rows).tolist():
            pieces = self._unknown_pieces.get(words[row])
            if pieces is None:
                word_ids = ids[ends[row] - lengths[row] : ends[row]].tolist()
                pieces = self._list_unknown_pieces(self._words.split(words[row]), word_ids)
                if len(self._unknown_pieces) >= MAX_UNKNOWN_WORDS:
                    self._unknown_pieces = {}
                self._unknown_pieces[words[row]] = pieces
            surfaces += pieces
        return surfaces

    def _list_unknown_pieces(self, pieces: Sequence[str], ids: Iterable[int]) -> list[str]:
        """Return those pieces of a word that are unknown, given all its ids."""
        remaining, unknown = iter(ids), []
        for piece in pieces:
            size = 0
            while size < len(piece):
                token_id = next(remaining)
                if token_id == UNKNOWN:
                    unknown.append(piece)
                surface = piece if token_id == UNKNOWN else self.vocabulary[token_id]
                size += len(surface)
        return unknown

    def save(self, folder: str | Path) -> None:
        """Write `vocabulary.txt` (one token a line) and `tokenizer.json` (the settings)."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(folder / "vocabulary.txt", self.vocabulary)
        settings = {
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "lowercase": self.lowercase,
            "vocabulary_size": len(self.vocabulary),
        }
        text = json.dumps(settings, indent=2) + "\n"
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")

    @classmethod
    def make_pipeline(cls, lowercase: bool) -> tokenizers.Tokenizer:
        """Return the engine of steps 0 to 4, with a placeholder model."""
        steps: list[Any] = [
            normalizers.NFC(),
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
    def make_later_pipeline(cls, lowercase: bool) -> tokenizers.Tokenizer:
        """Return the engine of a word, with the mark before it, that is not the first of a text."""
        engine = cls.make_pipeline(lowercase)
        steps = [normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])]
        engine.normalizer = normalizers.Sequence(steps)
        return engine

    @classmethod
    def make_model(cls, ids: dict[str, int]) -> models.Model:
        """Return the model of step 5, which maps a piece to ids."""
        return models.WordLevel(ids, SPECIAL_TOKENS[UNKNOWN])

    @classmethod
    def learn(cls, texts: Sequence[str], size: int, lowercase: bool) -> list[str]:
        """Return at most `size` tokens: the most frequent ones, ties in code point order."""
        counts = cls.count_pieces(texts, lowercase)
        return [*SPECIAL_TOKENS, *_select_most_frequent(counts, size - len(SPECIAL_TOKENS))]

    @classmethod
    def count_pieces(cls, texts: Sequence[str], lowercase: bool) -> Counter[str]:
        """Return the number of occurrences of each piece (step 4)."""
        words, counts = Counter[str](), Counter[str]()
        for part in log_batches(texts, COUNT_BATCH, "learning the vocabulary", "texts"):
            words.update(chain.from_iterable(map(split_white_space, part)))
        splitter = WordCache(cls.make_pipeline(lowercase), cls.make_later_pipeline(lowercase))
        for word, count in words.items():
            for piece in splitter.split(word):
                counts[piece] += count
        return counts


@TOKENIZERS.register("word")
class WordTokenizer(Tokenizer):
    """Tokenizer with whole pieces as tokens; those that are not frequent enough are unknown."""

    kind = "word"


@TOKENIZERS.register("character")
class CharacterTokenizer(Tokenizer):
    """Tokenizer with characters as tokens; a space is `▁`."""

    kind = "character"
    pattern = CHARACTER_PATTERN
    marks_start = False


@TOKENIZERS.register("whitespace")
class WhitespaceTokenizer(Tokenizer):
    """Tokenizer that splits at white space only, for texts that are already split into words."""

    kind = "whitespace"
    pattern = WHITESPACE_PATTERN


@TOKENIZERS.register("subword")
class SubwordTokenizer(Tokenizer):
    """Subword tokenizer: longest match first, without a prefix on continuing subwords.

    The vocabulary is learned by merging the most frequent pairs inside pieces (Sennrich, Haddow and
    Birch 2016, arXiv:1508.07909). It contains all characters of the texts if its size allows it.
    """

    kind = "subword"

    @classmethod
    def make_model(cls, ids: dict[str, int]) -> models.Model:
        return models.WordPiece(
            ids,
            unk_token=SPECIAL_TOKENS[UNKNOWN],
            continuing_subword_prefix="",
            max_input_chars_per_word=MAX_RUN + 1,
        )

    @classmethod
    def learn(cls, texts: Sequence[str], size: int, lowercase: bool) -> list[str]:
        pieces, characters = cls.count_pieces(texts, lowercase), Counter[str]()
        for piece, count in pieces.items():
            for character in piece:
                characters[character] += count
        alphabet = _select_most_frequent(characters, size - len(SPECIAL_TOKENS))
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            continuing_subword_prefix="",
            show_progress=False,
        )
        engine = tokenizers.Tokenizer(cls.make_model({SPECIAL_TOKENS[UNKNOWN]: 0}))
        # The trainer takes texts, not counts, so each piece is repeated. Pieces have no spaces.
        engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        repeated = (
            " ".join([piece] * min(MAX_REPEATS, count - start))
            for piece, count in pieces.items()
            for start in range(0, count, MAX_REPEATS)
        )
        engine.train_from_iterator(repeated, trainer)
        ids = engine.get_vocab()
        return sorted(ids, key=lambda token: ids[token])


def train_tokenizer(
    kind: str, texts: Sequence[str], vocabulary_size: int = 8000, lowercase: bool = False
) -> Tokenizer:
    """Learn the vocabulary of a tokenizer from texts. The result is deterministic.

    Args:
        kind: "subword", "word", "character" or "whitespace".
        texts: the texts to learn from.
        vocabulary_size: maximum number of tokens, including the four special tokens.
        lowercase: lowercase every text first.

    Raises:
        ValueError: an unknown kind, no text to learn from, a vocabulary size of 4 or less.
    """
    cls: Any = TOKENIZERS.get(kind)
    if vocabulary_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"vocabulary_size must be greater than {len(SPECIAL_TOKENS)}, the number of special"
            f" tokens, got {vocabulary_size}"
        )
    check_all_unicode(texts)
    if not any(text.strip(f"{MARK} \n") for text in texts):
        raise ValueError("no text to learn a vocabulary from; give at least one line with words")
    tokenizer: Tokenizer = cls(cls.learn(texts, vocabulary_size, lowercase), lowercase)
    return tokenizer


def load_tokenizer(folder: str | Path) -> Any:
    """Load a saved tokenizer, or that of a public checkpoint.

    The latter are BERT, GPT-2, RoBERTa, BART, T5, and the source language of Marian.

    Raises:
        ValueError: a file is missing or damaged; with file:line for the vocabulary.
    """
    if is_public_tokenizer(Path(folder)):
        return load_public_tokenizer(Path(folder))
    path = Path(folder) / "tokenizer.json"
    try:
        settings = read_strict_json(path)
        kind, lowercase = settings["kind"], settings["lowercase"]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; expected a tokenizer's folder") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path}: not the settings of a tokenizer; expected"
            ' {"kind": "word", "lowercase": false}'
        ) from None
    check_format_version(path, settings, FORMAT_VERSION)
    if not isinstance(kind, str) or kind not in TOKENIZERS or not isinstance(lowercase, bool):
        raise ValueError(
            f"{path}: kind={kind!r}, lowercase={lowercase!r}; expected one of"
            f" {', '.join(TOKENIZERS.names())} and true or false"
        )
    vocabulary = read_vocabulary(Path(folder) / "vocabulary.txt")
    size = settings.get("vocabulary_size", len(vocabulary))  # missing in earlier files
    if len(vocabulary) != size:
        raise ValueError(
            f"{Path(folder) / 'vocabulary.txt'}: expected {size} tokens, found {len(vocabulary)};"
            " restore the file"
        )
    return TOKENIZERS.get(kind)(vocabulary, lowercase)


def _select_most_frequent(counts: Counter[str], size: int) -> list[str]:
    return sorted(counts, key=lambda token: (-counts[token], token))[:size]
