"""Lines of several scripts, generated from the tables of Unicode and CLDR."""

from __future__ import annotations

import datetime
import random
import unicodedata
from collections.abc import Iterator

from babel import Locale, dates, numbers, units

LOCALES = ("ru", "ar", "zh", "de", "hi", "vi")
UNITS = ("length-kilometer", "mass-gram", "duration-hour", "temperature-celsius", "volume-liter")
JOINER, SELECTOR = "\u200d", "\ufe0f"
LAST = 0x1FAFF  # the last code point of the emoji


def write_cldr_line(rng: random.Random, locale: str) -> str:
    """Return a date, a quantity, an amount of money or names of countries in a language."""
    kind = rng.randrange(4)
    if kind == 0:
        day = datetime.date(1950, 1, 1) + datetime.timedelta(rng.randrange(36_500))
        return dates.format_date(day, rng.choice(["full", "long", "short"]), locale)
    if kind == 1:
        return units.format_unit(rng.randrange(10**6) / 10, rng.choice(UNITS), locale=locale)
    if kind == 2:
        currency = rng.choice(["EUR", "USD", "JPY", "RUB", "SAR"])
        return numbers.format_currency(rng.randrange(10**7) / 100, currency, locale=locale)
    names = [name for code, name in sorted(Locale(locale).territories.items()) if code.isalpha()]
    return ", ".join(rng.choices(names, k=1 + rng.randrange(5))) + rng.choice([".", "!", "..."])


def write_unicode_line(rng: random.Random) -> str:
    """Return letters with combining marks, emoji that are joined, and characters of any script."""
    marks = [chr(c) for c in range(0x300, 0x370)]
    emoji = [chr(c) for c in range(0x1F300, LAST) if unicodedata.category(chr(c)) == "So"]
    parts = []
    for _ in range(1 + rng.randrange(8)):
        kind = rng.randrange(4)
        if kind == 0:
            parts.append(rng.choice("aeiouAEIOUnyжαक") + "".join(rng.choices(marks, k=1)))
        elif kind == 1:
            parts.append(JOINER.join(rng.choices(emoji, k=1 + rng.randrange(3))) + SELECTOR)
        elif kind == 2:
            start = rng.choice([0x20, 0xA0, 0x370, 0x590, 0x900, 0xE00, 0x1100, 0x2000, 0x3040])
            codes = (start + rng.randrange(0x100) for _ in range(1 + rng.randrange(6)))
            parts.append("".join(map(chr, codes)))
        else:
            parts.append(rng.choice([" ", "  ", "\t", "!!", "...", "\u3000", "12", "ﬁ", "①"]))
    return "".join(parts)


def make_lines(count: int) -> list[str]:
    """Return lines, half of them from CLDR and half from the tables of Unicode."""
    rng = random.Random(0)

    def write() -> Iterator[str]:
        for number in range(count):
            is_cldr = number % 2 == 0
            yield write_cldr_line(rng, rng.choice(LOCALES)) if is_cldr else write_unicode_line(rng)

    return [*write()]
