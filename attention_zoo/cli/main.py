"""Entry point of the command-line interface."""

from __future__ import annotations

import io
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from attention_zoo.cli.arguments import Parser, expand_home
from attention_zoo.cli.streams import (
    discard_unwritten_output,
    import_keras_quietly,
    prepare_streams,
    use_utf8_mode,
)
from attention_zoo.registry import check_known

COMMANDS = {
    "list": "list the presets, recipes and trained entries of the zoo",
    "train": "train the model of a recipe, or resume the run",
    "prepare": "prepare the data of a recipe in its cache, with several processes",
    "average": "write the average of a run's newest checkpoints",
    "evaluate": "evaluate a run on a split",
    "compare": "compare runs: recipe keys that differ, parameters, best metric, steps, time",
    "predict": "predict for each line of a file or of standard input",
    "inspect": "write the attention of all layers for one input as an interactive page",
    "export": "export a run to a folder that can be served without this library",
    "serve": "serve exports over HTTP",
    "demo": "serve exports over HTTP, with a page to try them in a browser",
    "cache": "list or remove the prepared data of large corpora",
}

WITHOUT_KERAS = ("list", "cache", "serve", "demo")
"""Commands that do not import Keras."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 for success, 2 for invalid input or an I/O error (one line on standard
        error), or 128 plus the number of the signal that stopped the command.
    """
    try:
        if argv is None:
            use_utf8_mode()
            prepare_streams()
            warnings.formatwarning = _format_warning
            argv = sys.argv[1:]
        code = _dispatch(list(argv))
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        _print_line(str(stop) or "interrupted")
        code = 128 + getattr(stop, "number", signal.SIGINT)
    except BrokenPipeError:
        code = 0
    except OSError as error:
        code = _print_error(_describe_io_error(error))
    except ValueError as error:
        code = _print_error(str(error))
    discard_unwritten_output()
    return code


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
        arguments = parser.parse_intermixed_args([expand_home(word) for word in argv[1:]])
    except SystemExit as done:  # --help
        return int(done.code or 0)
    if name not in WITHOUT_KERAS:
        import_keras_quietly()
        from attention_zoo.user_modules import import_user_modules

        import_user_modules(arguments.imports, "--import")
    command.run(arguments)
    return 0


def _format_usage() -> str:
    lines = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
    return (
        f"usage: attention-zoo COMMAND ...\n\n{lines}\n\n"
        "`attention-zoo COMMAND --help` shows the options of a command."
    )


def _describe_io_error(error: OSError) -> str:
    """Return an error message with the name of the file or stream."""
    if isinstance(error, io.UnsupportedOperation):
        return "standard input is closed; name an input file"
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Return a warning as one line, without its location in the source."""
    return f"attention-zoo: warning: {' '.join(str(message).split())}\n"


def _print_error(message: str) -> int:
    _print_line(f"error: {' '.join(message.split())}")
    return 2


def _print_line(message: str) -> None:
    with suppress(OSError):  # the terminal may be closed
        print(f"attention-zoo: {message}", file=sys.stderr, flush=True)
