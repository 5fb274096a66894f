"""Entry point of the command-line interface."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from attention_zoo.cli.arguments import Parser
from attention_zoo.registry import check_known

COMMANDS = {
    "list": "list the model presets, or the tasks with their corpora",
    "train": "train the model of a recipe, or resume the run",
    "average": "write the average of a run's newest checkpoints",
    "evaluate": "evaluate a run on a split",
    "predict": "predict for each line of a file or of standard input",
    "export": "export a run to a folder that can be served without this library",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 for success, 2 for invalid input or an I/O error (one line on standard
        error), or 128 plus the number of the signal that stopped the command.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stop:
        print(f"attention-zoo: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 128 + getattr(stop, "number", signal.SIGINT)
    except BrokenPipeError:
        # The reader closed the pipe; let Python flush the rest of its buffer to /dev/null at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _print_error(f"{error.filename or 'input'}: {error.strerror}")
    except ValueError as error:
        return _print_error(str(error))


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_format_usage())
        return 0 if argv else 2
    name = argv[0]
    if name == "--version":
        from attention_zoo.version import __version__

        print(__version__)
        return 0
    check_known("unknown command", [name], COMMANDS)
    command = import_module(f"attention_zoo.cli.{name}")
    parser = Parser(prog=f"attention-zoo {name}", description=command.__doc__)
    command.add_arguments(parser)
    try:
        arguments = parser.parse_intermixed_args(argv[1:])
    except SystemExit as done:  # --help
        return int(done.code or 0)
    command.run(arguments)
    return 0


def _format_usage() -> str:
    lines = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
    return (
        f"usage: attention-zoo COMMAND ...\n\n{lines}\n\n"
        "`attention-zoo COMMAND --help` shows the options of a command."
    )


def _print_error(message: str) -> int:
    line = " ".join(message.split())
    print(f"attention-zoo: error: {line}", file=sys.stderr)
    return 2
