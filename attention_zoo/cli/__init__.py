"""Command line interface, one module per command: `attention-zoo --help` lists them."""

from attention_zoo.cli.main import main

__all__ = ["main"]
