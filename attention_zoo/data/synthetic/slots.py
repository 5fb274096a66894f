"""Slot values of generated sentences: sampled once, formatted from the CLDR.

A slot samples a value that is independent of the language and formats it in any language. Results
of Babel are cached by value and language (for dates: by weekday, day and month). All kinds of white
space become plain spaces.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

from attention_zoo.extras import explain_missing_package

Value = tuple[Any, ...]
RandomBelow = Callable[[int], int]  # randbelow(n) samples an integer from 0 to n - 1

MAX_AMOUNT = 99
_FIRST_DAY, _DAYS = datetime.date(1950, 1, 1), 36524  # up to 2049-12-30
_DATE_STYLES = ("full", "long", "MMMMd", "MMMMd", "MMMMd", "MMMMd")
_CLOCKS = {"en": "hm", "fr": "Hm", "de": "Hm", "zh": "Hm"}
_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

# The words of formatted values. Each named group is a concept; the links of a name with trailing
# underscores are only possible.
_NAME = r"[^\W\d]+"
_DAY_FIRST = re.compile(
    rf"((?P<weekday>{_NAME}),? )?(?P<day>\d+)\.? (?P<month>{_NAME})( (?P<year>\d+))?"
)
_DATE_WORDS = {
    "en": re.compile(
        rf"((?P<weekday>{_NAME}), )?(?P<month>{_NAME}) (?P<day>\d+)(, (?P<year>\d+))?"
    ),
    "fr": _DAY_FIRST,
    "de": _DAY_FIRST,
    "zh": re.compile(r"(?P<year>\d+年)?(?P<month>\d+月)(?P<day>\d+日)(?P<weekday>\w+)?"),
}
_TIME_WORDS = re.compile(r"(?P<hour>\d+):(?P<minute>\d+)( (?P<hour_>[AP]M))?")
_QUANTITY_WORDS = re.compile(
    rf"(?P<number>\d+) ?(?P<unit>(?P<scale_>摄氏度)|{_NAME})( (?P<scale>{_NAME}))?"
)
_AMOUNT = rf"(?P<number>\d+) ?(?P<unit>{_NAME}?)"
_FUTURE_FIRST = re.compile(rf"(?P<direction>in|dans) {_AMOUNT}")
_FUTURE_WORDS = {
    "en": _FUTURE_FIRST,
    "fr": _FUTURE_FIRST,
    "de": _FUTURE_FIRST,
    "zh": re.compile(rf"{_AMOUNT}(?P<direction>后)"),
}
_PAST_WORDS = {
    "en": re.compile(rf"{_AMOUNT} (?P<direction>ago)"),
    "fr": re.compile(rf"(?P<direction_>il) (?P<direction__>y) (?P<direction___>a) {_AMOUNT}"),
    "de": re.compile(rf"(?P<direction>vor) {_AMOUNT}"),
    "zh": re.compile(rf"{_AMOUNT}(?P<direction>前)"),
}


class Slot(Protocol):
    """A type of value that can be sampled and formatted."""

    def sample(self, randbelow: RandomBelow) -> Value:
        """Sample a value, with as many calls of `randbelow` as it needs."""

    def format(self, value: Value, language: str) -> str:
        """Format the value in a language."""

    def get_word_pattern(self, language: str) -> re.Pattern[str]:
        """Return a pattern of the formatted value, with a group for each concept."""


class Date:
    """A day of 1950 to 2049: with weekday and year, with the year, or day and month alone."""

    def sample(self, randbelow: RandomBelow) -> Value:
        day = _FIRST_DAY + datetime.timedelta(days=randbelow(_DAYS))
        style = _DATE_STYLES[randbelow(len(_DATE_STYLES))]
        return style, day.year, day.month, day.day

    def format(self, value: Value, language: str) -> str:
        style, year, month, day = value
        weekday = datetime.date(year, month, day).weekday()
        return str(year).join(_split_at_year(style, weekday, month, day, language))

    def get_word_pattern(self, language: str) -> re.Pattern[str]:
        return _DATE_WORDS[language]


class Time:
    """A minute of the day, in 12-hour format in English, otherwise in 24-hour format."""

    def sample(self, randbelow: RandomBelow) -> Value:
        return randbelow(24), randbelow(60)

    def format(self, value: Value, language: str) -> str:
        return _format_time(*value, language)

    def get_word_pattern(self, language: str) -> re.Pattern[str]:
        return _TIME_WORDS


class Quantity(NamedTuple):
    """An amount from 1 to `MAX_AMOUNT` in one of several CLDR units ("length-kilometer")."""

    units: tuple[str, ...]

    def sample(self, randbelow: RandomBelow) -> Value:
        return self.units[randbelow(len(self.units))], 1 + randbelow(MAX_AMOUNT)

    def format(self, value: Value, language: str) -> str:
        return _format_quantity(*value, language)

    def get_word_pattern(self, language: str) -> re.Pattern[str]:
        return _QUANTITY_WORDS


class RelativeTime(NamedTuple):
    """A time up to `MAX_AMOUNT` minutes, hours, days or weeks in the future or the past."""

    is_future: bool

    def sample(self, randbelow: RandomBelow) -> Value:
        return tuple(_SECONDS)[randbelow(len(_SECONDS))], 1 + randbelow(MAX_AMOUNT)

    def format(self, value: Value, language: str) -> str:
        unit, number = value
        return _format_relative_time(unit, number if self.is_future else -number, language)

    def get_word_pattern(self, language: str) -> re.Pattern[str]:
        return (_FUTURE_WORDS if self.is_future else _PAST_WORDS)[language]


@cache
def _split_at_year(style: str, weekday: int, month: int, day: int, language: str) -> list[str]:
    """Return the text before and after the year; a single text if the style has no year."""
    with explain_missing_package():
        from babel import dates

    # Among the leap years of a 28-year cycle, a day has every weekday, and February 29 exists.
    days = (datetime.date(year, month, day) for year in range(2000, 2028, 4))
    date = next(date for date in days if date.weekday() == weekday)
    if style in ("full", "long"):
        text = dates.format_date(date, style, locale=language)
    else:
        text = dates.format_skeleton(style, date, locale=language)
    return _normalize_spaces(text).split(str(date.year))


@cache
def _format_time(hour: int, minute: int, language: str) -> str:
    with explain_missing_package():
        from babel import dates

    time = datetime.time(hour, minute)
    return _normalize_spaces(dates.format_skeleton(_CLOCKS[language], time, locale=language))


@cache
def _format_quantity(unit: str, number: int, language: str) -> str:
    with explain_missing_package():
        from babel import units

    # The CLDR omits the long form of some Chinese units that equal the short form.
    texts = (units.format_unit(number, unit, style, locale=language) for style in ("long", "short"))
    return _normalize_spaces(next(text for text in texts if unit not in text))


@cache
def _format_relative_time(unit: Any, number: int, language: str) -> str:
    with explain_missing_package():
        from babel import dates

    seconds = number * _SECONDS[unit]
    # With an infinite threshold, Babel never switches to a unit larger than `unit`.
    text = dates.format_timedelta(seconds, unit, math.inf, add_direction=True, locale=language)
    return _normalize_spaces(text)


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())
