"""Input of taggers: texts to words with character offsets, and words to tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, compress
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.data import EncodedWords, TaggedSentences, Tokenizer, Word, split_words
from attention_zoo.data.batching.tagged_batches import list_columns
from attention_zoo.data.tokenizers.public_tokenizers import ByteLevelTokenizer
from attention_zoo.data.tokenizers.tokenizer import WHITE_SPACE
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.ops import whole_number
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.inputs import check_text, is_list, list_argument, materialize_row
from attention_zoo.tasks.text_inputs import find_unknown

Words = Sequence[str]
Marked = Sequence[Sequence[int]] | None
"""For each sentence, the indices of its marked words."""

WordIds = tuple[list[int], list[list[int]]]
"""Token ids of a word, and the character ids of each token."""

MAX_CACHED_WORDS = 2**15
"""Number of words in the cache from which it is replaced by an empty one."""

_SPACES = re.compile(f"[{WHITE_SPACE}]+")


class Source(NamedTuple):
    """A sentence to tag.

    text: the input text, or the input words joined by spaces.
    words: its words with their character offsets.
    encoded: the model's input.
    labels: readable labels of its tokens.
    unknown: positions of unknown tokens; see `WordEncoder.make_source`.
    """

    text: str
    words: list[Word]
    encoded: EncodedWords
    labels: tuple[str, ...]
    unknown: tuple[int, ...]


class WordEncoder:
    """Encoder of words. Each word is tokenized separately, so each token belongs to one word.

    Args:
        tokenizer: the tokenizer of words.
        characters: the tokenizer of the characters of each token, or None. With it, `tokenizer` is
            of kind "whitespace", and a word without white space is one token.
    """

    def __init__(self, tokenizer: Tokenizer, characters: Tokenizer | None = None) -> None:
        self.tokenizer, self.characters = tokenizer, characters
        self._word_tokenizer = make_word_tokenizer(tokenizer)
        self._cache: dict[str, WordIds] = {}

    @property
    def character_hash(self) -> str | None:
        """Hash of the tokenizer of characters; None without one."""
        return None if self.characters is None else self.characters.content_hash

    def encode(
        self,
        sentences: Sequence[Words],
        marks: Sequence[Sequence[bool]] | None = None,
        has_space: Sequence[Sequence[bool]] | None = None,
        add_special_tokens: bool = False,
    ) -> list[EncodedWords]:
        """Encode sentences for a tagger; a word without tokens becomes the unknown token.

        Args:
            sentences: the words of each sentence.
            marks: for each sentence, whether each word is marked; or None.
            has_space: for each sentence, whether white space precedes each word; None: it precedes
                all but the first. Only byte-level tokenizers use it: their tokens include the space
                before a word. The tokenizer may add one before the first.
            add_special_tokens: whether to add the tokenizer's start and end tokens.
        """
        if isinstance(self.tokenizer, ByteLevelTokenizer):
            first = self.tokenizer.adds_prefix_space
            sentences = prefix_spaces(sentences, has_space, first)
        ids = self._encode_words({word for words in sentences for word in words})
        encoded = []
        for row, words in enumerate(sentences):
            word_ids = [ids[word] for word in words]
            sizes = [len(tokens) for tokens, _ in word_ids]
            letters = marked = None
            if self.characters is not None:
                letters = list(chain.from_iterable(spelled for _, spelled in word_ids))
            if marks is not None:
                marked = np.repeat(np.array(marks[row], bool), sizes).tolist()
            tokens = list(chain.from_iterable(tokens for tokens, _ in word_ids))
            starts = list(accumulate(sizes[:-1], initial=0)) if sizes else []
            if add_special_tokens:
                tokens = [self.tokenizer.start, *tokens, self.tokenizer.end]
                starts = [start + 1 for start in starts]
                marked = marked and [False, *marked, False]
            encoded.append(EncodedWords(tokens, starts, letters, marked))
        return encoded

    def _encode_words(self, words: set[str]) -> Mapping[str, WordIds]:
        """Return a mapping that contains the ids of all `words`, which stay cached."""
        cache = self._cache
        new = [word for word in words if word not in cache]
        if len(cache) + len(new) > MAX_CACHED_WORDS:
            # Not `clear`, because another thread may be reading the old one.
            new, cache = list(words), {}
        unknown = [self.tokenizer.unknown]
        tokens = [ids or unknown for ids in self._word_tokenizer.encode(new)]
        spelled = self._spell(new)
        cache.update(zip(new, zip(tokens, spelled, strict=True), strict=True))
        if len(cache) <= MAX_CACHED_WORDS:
            self._cache = cache
        return cache

    def _spell(self, words: Words) -> list[list[list[int]]]:
        """Return the character ids of each token of each word; no tokens without characters."""
        if self.characters is None:
            return [[] for _ in words]
        split = [[part for part in _SPACES.split(word) if part] or [word] for word in words]
        flat = [part for parts in split for part in parts]
        ids = iter(self.characters.encode(flat))
        return [[next(ids) or [UNKNOWN] for _ in parts] for parts in split]

    def make_source(self, text: str, words: list[Word], encoded: EncodedWords) -> Source:
        """Return a `Source` with its token labels and the positions of its unknown tokens.

        With characters, a token counts as unknown only if one of its characters is unknown too.
        """
        labels = tuple(self.tokenizer.tokens(encoded.tokens))
        spellings = encoded.characters or [[UNKNOWN]] * len(labels)
        unknown = find_unknown(encoded.tokens, self.tokenizer.unknown)
        unknown = tuple(n for n in unknown if UNKNOWN in spellings[n])
        return Source(text, words, encoded, labels, unknown)


def make_word_tokenizer(tokenizer: Any) -> Any:
    """Return the tokenizer without a prefix space, for words that have the space before them."""
    is_byte_level = isinstance(tokenizer, ByteLevelTokenizer)
    return tokenizer.without_prefix_space() if is_byte_level else tokenizer


def prefix_spaces(
    sentences: Sequence[Words], has_space: Sequence[Sequence[bool]] | None, first: bool
) -> list[list[str]]:
    """Prefix words with a space.

    Args:
        sentences, has_space: as in `WordEncoder.encode`.
        first: whether to prefix the first word of a sentence.
    """
    if has_space is None:
        has_space = [[True] * len(words) for words in sentences]
    return [
        [
            f" {word}" if (flags[number] if number else first) else word
            for number, word in enumerate(words)
        ]
        for words, flags in zip(sentences, has_space, strict=True)
    ]


def find_spaces(words: Sequence[Word]) -> list[bool]:
    """Return whether white space precedes each word; False for the first."""
    return [n > 0 and words[n - 1].end < word.start for n, word in enumerate(words)]


def split_source(text: str | Words, location: str) -> tuple[str, list[Word]]:
    """Return a text and its words with character offsets; raise ValueError if it is invalid.

    Args:
        text: a sentence, to be split by `data.split_words`, or a list of words.
        location: location of the text for error messages.
    """
    if not is_list(text):
        text = check_text(location, text)
        words = split_words(text)
    else:
        text = list(text)
        for number, word in enumerate(text):
            if not isinstance(word, str) or not word.strip(" \t\r\n"):
                message = f"word {number} must be a non-blank string, got {word!r}"
                raise ValueError(f"{location}: {message}")
            check_text(f"{location}: word {number}", word)
        starts = accumulate((len(word) + 1 for word in text), initial=0)
        pairs = zip(text, starts, strict=False)  # the last start has no word
        words = [Word(word, start, start + len(word)) for word, start in pairs]
        text = " ".join(text)
    if not words:
        raise ValueError(f"{location}: the text is empty. Remove it or write a sentence.")
    return text, words


def get_marks(examples: TaggedSentences) -> Sequence[Sequence[bool]]:
    """Return whether each word of a corpus is marked; ValueError if the corpus has no marks."""
    if examples.marks is None:
        raise ValueError(
            f"{examples.origin}: the model takes marked words, but the corpus has no marks; set"
            " their column (data.marks)"
        )
    return examples.marks


def list_marks(marks: Iterable[Iterable[int]] | None, count: int, takes_marks: bool) -> Marked:
    """Return the marks of each of `count` sentences; `mark_words` checks those of a sentence.

    Raises:
        ValueError: if the marks are missing, given to a model without marks, or not a list.
    """
    if not takes_marks and marks is not None:
        raise ValueError("marks must be None for a model that takes no marks; remove the argument")
    if not takes_marks:
        return None
    listed = [] if marks is None else list_argument("marks", marks, "lists of word indices")
    if marks is None or len(listed) != count:
        raise ValueError(
            "marks: the model takes marked words; pass their indices for each of the"
            f" {count} sentences"
        )
    return [materialize_row(row) for row in listed]


def mark_words(
    sentences: Sequence[Words], marks: Marked, locations: Sequence[str]
) -> list[list[bool]] | None:
    """Return booleans for the indices of marked words; raise ValueError for invalid marks."""
    if marks is None:
        return None
    marked = []
    for location, words, row in zip(locations, sentences, marks, strict=True):
        name, last = f"{location}: marks", len(words) - 1
        indices = {whole_number(name, mark, 0) for mark in list_argument(name, row, "word indices")}
        if indices and max(indices) > last:
            raise ValueError(f"{name} must be from 0 to {last}, got {max(indices)}")
        marked.append([number in indices for number in range(len(words))])
    return marked


def index_tags(examples: TaggedSentences, tags: Sequence[str]) -> list[list[int]]:
    """Return tag indices; raise ValueError with the location of an unknown tag."""
    numbers = {tag: number for number, tag in enumerate(tags)}
    for row, of_sentence in enumerate(examples.tags):
        for word, tag in enumerate(of_sentence):
            if tag not in numbers:
                raise ValueError(
                    f"{examples.locate_word(row, word)}: unknown tag {tag!r}"
                    f"{did_you_mean(tag, numbers)}; fix it, or train on a corpus that has it"
                    f" (known: {', '.join(numbers)})"
                )
    return [[numbers[tag] for tag in of_sentence] for of_sentence in examples.tags]


def select_columns(
    encoded: Sequence[EncodedWords], labels: Sequence[Sequence[int]], fits: Sequence[bool]
) -> dict[str, Any]:
    """Return the token ids and labels of the sentences that `fits` selects, by column."""
    return list_columns(list(compress(encoded, fits)), list(compress(labels, fits)))
