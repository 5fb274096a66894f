"""Slot values of generated sentences: sampled once, formatted from the CLDR.

A slot samples a value that is independent of the language and formats it in any language. Results
of Babel are cached by value and language (for dates: by weekday, day and month). All kinds of white
space become plain spaces.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, cast

Value = tuple[int | str, ...]
Granularity = Literal["minute", "hour", "day", "week"]
RandomBelow = Callable[[int], int]  # randbelow(n) samples an integer from 0 to n - 1

_FIRST_DAY, _DAYS = datetime.date(1950, 1, 1), 36524  # up to 2049-12-30
_DATE_STYLES = ("full", "long", "MMMMd", "MMMMd", "MMMMd", "MMMMd")
_CLOCKS = {"en": "hm", "fr": "Hm", "de": "Hm", "zh": "Hm"}
_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


class Slot(Protocol):
    """A type of value that can be sampled and formatted."""

    def sample(self, randbelow: RandomBelow) -> Value:
        """Sample a value, with as many calls of `randbelow` as it needs."""

    def format(self, value: Value, language: str) -> str:
        """Format the value in a language."""


class Date:
    """A day of 1950 to 2049: with weekday and year, with the year, or day and month alone."""

    def sample(self, randbelow: RandomBelow) -> Value:
        day = _FIRST_DAY + datetime.timedelta(days=randbelow(_DAYS))
        style = _DATE_STYLES[randbelow(len(_DATE_STYLES))]
        return style, day.year, day.month, day.day

    def format(self, value: Value, language: str) -> str:
        style, year, month, day = value
        weekday = datetime.date(int(year), int(month), int(day)).weekday()
        parts = _split_at_year(str(style), weekday, int(month), int(day), language)
        return str(year).join(parts)


class Time:
    """A minute of the day, in 12-hour format in English, otherwise in 24-hour format."""

    def sample(self, randbelow: RandomBelow) -> Value:
        return randbelow(24), randbelow(60)

    def format(self, value: Value, language: str) -> str:
        return _format_time(int(value[0]), int(value[1]), language)


@dataclass(frozen=True)
class Quantity:
    """An amount from 1 to `largest` in one of several CLDR units ("length-kilometer")."""

    units: tuple[str, ...]
    largest: int

    def sample(self, randbelow: RandomBelow) -> Value:
        return self.units[randbelow(len(self.units))], 1 + randbelow(self.largest)

    def format(self, value: Value, language: str) -> str:
        return _format_quantity(str(value[0]), int(value[1]), language)


@dataclass(frozen=True)
class RelativeTime:
    """A relative time, up to `largest` minutes, hours, days or weeks in the future or the past."""

    is_future: bool
    largest: int

    def sample(self, randbelow: RandomBelow) -> Value:
        return tuple(_SECONDS)[randbelow(len(_SECONDS))], 1 + randbelow(self.largest)

    def format(self, value: Value, language: str) -> str:
        number = int(value[1]) if self.is_future else -int(value[1])
        return _format_relative_time(str(value[0]), number, language)


@cache
def _split_at_year(style: str, weekday: int, month: int, day: int, language: str) -> list[str]:
    """Return the text before and after the year; a single text if the style has no year."""
    from babel import dates

    year = next(
        year
        for year in range(2000, 2028)
        if _is_day(year, month, day) and datetime.date(year, month, day).weekday() == weekday
    )
    date = datetime.date(year, month, day)
    if style in ("full", "long"):
        text = dates.format_date(date, style, locale=language)
    else:
        text = dates.format_skeleton(style, date, locale=language)
    return _normalize_spaces(text).split(str(year))


def _is_day(year: int, month: int, day: int) -> bool:
    return (month, day) != (2, 29) or year % 4 == 0


@cache
def _format_time(hour: int, minute: int, language: str) -> str:
    from babel import dates

    time = datetime.time(hour, minute)
    return _normalize_spaces(dates.format_skeleton(_CLOCKS[language], time, locale=language))


@cache
def _format_quantity(unit: str, number: int, language: str) -> str:
    from babel import units

    # The CLDR omits the long form of some Chinese units that equal the short form.
    texts = (
        units.format_unit(number, unit, length, locale=language) for length in ("long", "short")
    )
    return _normalize_spaces(next(text for text in texts if unit not in text))


@cache
def _format_relative_time(unit: str, number: int, language: str) -> str:
    from babel import dates

    # With an infinite threshold, Babel never switches to a unit larger than `unit`.
    text = dates.format_timedelta(
        number * _SECONDS[unit],
        granularity=cast(Granularity, unit),
        threshold=math.inf,
        add_direction=True,
        locale=language,
    )
    return _normalize_spaces(text)


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())
