"""Tables of bad input and of the error message that each row must raise."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest


def refuses(*cases: tuple[Any, ...], literal: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Turn a function into a parametrized test that it rejects each row (decorator).

    Args:
        cases: Rows: the function's first arguments, then a regular expression that the message of
            the error must match. Other parameters of the function are fixtures.
        literal: Whether messages are plain text instead of regular expressions.

    Returns:
        A test that the function raises a `ValueError` whose message has one line and matches.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        own = inspect.signature(function)
        names = [name for name in own.parameters if name != "self"][: len(cases[0]) - 1]

        @functools.wraps(function)
        def test(*instance: Any, message: str, **given: Any) -> None:
            pattern = re.escape(message) if literal else message
            with pytest.raises(ValueError, match=pattern) as caught:
                function(*instance, **given)
            assert "\n" not in str(caught.value)

        message = inspect.Parameter("message", inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = own.replace(parameters=[*own.parameters.values(), message])  # type: ignore[attr-defined]
        messages = [case[-1] for case in cases]
        return pytest.mark.parametrize((*names, "message"), cases, ids=messages)(test)

    return decorate
