"""The command line, one command a file: `attention-zoo --help` lists them."""

from attention_zoo.cli.main import main

__all__ = ["main"]
