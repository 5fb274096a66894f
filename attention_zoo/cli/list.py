"""List the presets that a recipe's `model.preset` can name."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(arguments: argparse.Namespace) -> None:
    """Print one preset per line."""
    from attention_zoo import models

    print("\n".join(models.list_presets()))
