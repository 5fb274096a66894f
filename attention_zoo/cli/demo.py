"""Serve exported models over HTTP, with a demo page for the browser."""

from __future__ import annotations

import argparse

from attention_zoo.cli import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `attention-zoo serve`."""
    serve.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Load all models, then serve them and the page until SIGINT or SIGTERM."""
    serve.serve(arguments, has_demo=True)
