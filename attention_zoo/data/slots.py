"""What stands in the slots of a generated sentence: drawn once, written from the CLDR.

A slot draws a value that belongs to no language and writes it in any. Babel is asked once for each
value (for dates: for each weekday, day and month); white space of all kinds is written as plain
spaces.
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
Pick = Callable[[int], int]  # Pick(n): one of 0 .. n - 1

_FIRST_DAY, _DAYS = datetime.date(1950, 1, 1), 36524  # up to the end of 2049
_DATE_STYLES = ("full", "long", "MMMMd", "MMMMd", "MMMMd", "MMMMd")
_CLOCKS = {"en": "hm", "fr": "Hm", "de": "Hm", "zh": "Hm"}
_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


class Slot(Protocol):
    """A kind of value: how to draw one and how to write it."""

    def draw(self, pick: Pick) -> Value:
        """A value, from as many picks as it needs."""

    def write(self, value: Value, language: str) -> str:
        """The value in a language."""


class Date:
    """A day of 1950 to 2049: with weekday and year, with the year, or day and month alone."""

    def draw(self, pick: Pick) -> Value:
        day = _FIRST_DAY + datetime.timedelta(days=pick(_DAYS))
        style = _DATE_STYLES[pick(len(_DATE_STYLES))]
        return style, day.year, day.month, day.day

    def write(self, value: Value, language: str) -> str:
        style, year, month, day = value
        weekday = datetime.date(int(year), int(month), int(day)).weekday()
        around = _around_year(str(style), weekday, int(month), int(day), language)
        return str(year).join(around)


class Time:
    """A minute of the day, on the clock the language uses: 12 hours in English, else 24."""

    def draw(self, pick: Pick) -> Value:
        return pick(24), pick(60)

    def write(self, value: Value, language: str) -> str:
        return _time(int(value[0]), int(value[1]), language)


@dataclass(frozen=True)
class Quantity:
    """1 to `largest` of one of some CLDR units ("length-kilometer")."""

    units: tuple[str, ...]
    largest: int

    def draw(self, pick: Pick) -> Value:
        return self.units[pick(len(self.units))], 1 + pick(self.largest)

    def write(self, value: Value, language: str) -> str:
        return _quantity(str(value[0]), int(value[1]), language)


@dataclass(frozen=True)
class Distance:
    """A time from now, up to `largest` minutes, hours, days or weeks, ahead or ago."""

    is_ahead: bool
    largest: int

    def draw(self, pick: Pick) -> Value:
        return tuple(_SECONDS)[pick(len(_SECONDS))], 1 + pick(self.largest)

    def write(self, value: Value, language: str) -> str:
        number = int(value[1]) if self.is_ahead else -int(value[1])
        return _distance(str(value[0]), number, language)


@cache
def _around_year(style: str, weekday: int, month: int, day: int, language: str) -> list[str]:
    """What stands before and after the year; one text alone where the style has no year."""
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
    return _plain(text).split(str(year))


def _is_day(year: int, month: int, day: int) -> bool:
    return (month, day) != (2, 29) or year % 4 == 0


@cache
def _time(hour: int, minute: int, language: str) -> str:
    from babel import dates

    time = datetime.time(hour, minute)
    return _plain(dates.format_skeleton(_CLOCKS[language], time, locale=language))


@cache
def _quantity(unit: str, number: int, language: str) -> str:
    from babel import units

    # Chinese has no long form of some units where it is the same as the short one.
    texts = (
        units.format_unit(number, unit, length, locale=language) for length in ("long", "short")
    )
    return _plain(next(text for text in texts if unit not in text))


@cache
def _distance(unit: str, number: int, language: str) -> str:
    from babel import dates

    # No number reaches the threshold of a larger unit, so all stay in the smallest: `unit`.
    text = dates.format_timedelta(
        number * _SECONDS[unit],
        granularity=cast(Granularity, unit),
        threshold=math.inf,
        add_direction=True,
        locale=language,
    )
    return _plain(text)


def _plain(text: str) -> str:
    return " ".join(text.split())
