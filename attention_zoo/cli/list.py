"""Name the presets that a recipe's `model.preset` can be."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`list` takes none."""


def run(arguments: argparse.Namespace) -> None:
    """One preset a line."""
    from attention_zoo import models

    print("\n".join(models.list_presets()))
