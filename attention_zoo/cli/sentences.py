"""Sentences of CoNLL files, as inputs of `attention-zoo predict`, and their lines with tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from attention_zoo.cli.items import Item, Layout, Lines, Sentence, make_item

if TYPE_CHECKING:
    from attention_zoo.data.text.conll import ConllBlock, ConllLayout


def read_sentences(lines: Lines, layout: Layout) -> Iterator[Item]:
    """Yield the sentences of a CoNLL file, whose words are read as in training.

    The format is detected from most lines or, in a stream, from the first sentence.
    """
    from attention_zoo.data.text.conll import ConllColumns, find_layout, split_blocks

    sample, blocks = layout.read_ahead(
        split_blocks(lines, layout.comment),
        lambda block: any(not raw.startswith(b"#") for _, raw in block.rows),
    )
    columns = ConllColumns(layout.words or None)
    conll_layout = find_layout(sample, columns, layout.conllu)
    for block in blocks:
        yield _parse_sentence(block, conll_layout)


def _parse_sentence(block: ConllBlock, layout: ConllLayout) -> Item:
    """Return a sentence, located at its first word or at its first bad line."""
    from attention_zoo.data.text.conll import parse_word

    rows = block.find_words(layout)
    locations = {location for location, _ in rows}
    sentence = Sentence(
        tuple(
            (raw.decode("utf-8", "surrogateescape"), location in locations)
            for location, raw in block.lines
        ),
        layout,
    )
    words = [make_item(row[0], partial(parse_word, row, layout)) for row in rows]
    for word in words:
        if word.error:
            return replace(word, sentence=sentence)
    if not words:
        return Item(block.lines[0][0], sentence=sentence)
    return Item(words[0].location, [word.value.text for word in words], sentence=sentence)


def format_sentence(sentence: Sentence, tags: Sequence[str], column: int | None) -> str:
    """Return the lines of a sentence with the tag of each word.

    Args:
        sentence: the sentence.
        tags: the tags; "_" for all words if there are none.
        column: the column to replace in CoNLL-U; None to add a column.
    """
    remaining = iter(tags)
    lines = [
        _set_tag(line, next(remaining, "_"), sentence.layout, column) if is_word else line
        for line, is_word in sentence.lines
    ]
    return "\n".join(lines) + "\n"


def _set_tag(line: str, tag: str, layout: ConllLayout, column: int | None) -> str:
    """Return a line with a tag in a column of CoNLL-U, or in a new column."""
    from attention_zoo.data.text.conll import CONLLU_WIDTH

    if not layout.has_tabs:
        line = line.rstrip(" \t")
    cells = re.split("(\t)" if layout.has_tabs else "([ \t]+)", line)  # with their separators
    is_replaced = layout.is_conllu and len(cells[::2]) == CONLLU_WIDTH
    if not is_replaced or column is None or not -CONLLU_WIDTH <= column < CONLLU_WIDTH:
        return line + ("\t" if layout.has_tabs else " ") + tag
    cells[2 * (column % CONLLU_WIDTH)] = tag
    return "".join(cells)
