"""What the commands share: the parser, and telling overrides from file names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

OVERRIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*=")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as all others are."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """`key.key=value` words, and the others."""
    overrides = [word for word in words if OVERRIDE.match(word)]
    return overrides, [word for word in words if not OVERRIDE.match(word)]


def only_overrides(words: Sequence[str]) -> list[str]:
    """The words, when all of them are overrides; ValueError otherwise."""
    overrides, others = split_overrides(words)
    if others:
        raise ValueError(f"{others[0]}: is no key=value; write options as training.steps=100")
    return overrides
