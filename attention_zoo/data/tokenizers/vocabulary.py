"""Vocabularies: tokens in id order, with four special tokens first; one per line on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from attention_zoo.data.reading import decode_utf8
from attention_zoo.json_files import read_limited_lines

PAD, UNKNOWN, START, END = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
MARK = "▁"  # stands for a space


def check_vocabulary(tokens: Sequence[str], location: str) -> list[str]:
    """Return the tokens as a list; raise ValueError if they are not a valid vocabulary.

    Args:
        tokens: the tokens in id order.
        location: source of the tokens, for messages; the line number (id + 1) is appended to it.

    Raises:
        ValueError: a special token is missing or misplaced; a token is empty or occurs twice.
    """
    for token_id, expected in enumerate(SPECIAL_TOKENS):
        if tokens[token_id : token_id + 1] != [expected]:
            actual = repr(tokens[token_id]) if token_id < len(tokens) else "nothing"
            raise ValueError(
                f"{location}:{token_id + 1}: expected {expected!r}, found {actual}; a vocabulary"
                f" begins with {', '.join(SPECIAL_TOKENS)}"
            )
    first_line: dict[str, int] = {}
    for line, token in enumerate(tokens, 1):
        if not token:
            raise ValueError(f"{location}:{line}: empty token; remove the line or restore the file")
        if token in first_line:
            raise ValueError(
                f"{location}:{line}: token {token!r} is already on line {first_line[token]};"
                " restore the file"
            )
        first_line[token] = line
    return list(tokens)


def read_vocabulary(path: Path) -> list[str]:
    """Return the tokens of a vocabulary file; raise ValueError with file:line if it is damaged."""
    try:
        lines = read_limited_lines(path).removesuffix(b"\n").split(b"\n")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; expected a vocabulary file") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}; restore the file") from None
    tokens = [decode_utf8(f"{path}:{number}", line) for number, line in enumerate(lines, 1)]
    return check_vocabulary(tokens, str(path))


def write_vocabulary(path: Path, tokens: Iterable[str]) -> None:
    """Write one token per line, in id order, as UTF-8."""
    path.write_bytes("".join(f"{token}\n" for token in tokens).encode("utf-8"))


def check_all_unicode(texts: Sequence[str]) -> None:
    """Raise ValueError, which names the index, if a text has a lone surrogate."""
    for index, text in enumerate(texts):
        if not text.isascii():
            check_unicode(text, f"text {index}")


def check_unicode(text: str, location: str) -> None:
    """Raise ValueError if a text has a lone surrogate, which cannot be encoded."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{location} is not valid Unicode: a lone surrogate at character {error.start};"
            " remove it or decode the input as UTF-8"
        ) from None


def order_checkpoint_ids(special: Sequence[int], size: int) -> list[int]:
    """Return the checkpoint's id of each token id: -1 for padding, special ids, the other ids.

    Args:
        special: the checkpoint's ids of the unknown, start and end tokens.
        size: number of ids of the checkpoint.
    """
    return [-1, *special, *(number for number in range(size) if number not in special)]
