"""The command line: `attention-zoo list | train | evaluate | predict`, one command a file."""

from attention_zoo.cli.main import main

__all__ = ["main"]
