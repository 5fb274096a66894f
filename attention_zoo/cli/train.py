"""Train the task of a recipe. The same command resumes a run that was stopped."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from typing import Any

from attention_zoo.cli.arguments import (
    add_imports,
    add_overrides,
    add_recipe,
    format_evaluate_command,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the recipe, its overrides and the changes to allow."""
    add_recipe(parser, nargs="?")
    add_overrides(parser, "any key of the recipe: run=FOLDER training.steps=100 model.units=64")
    add_imports(parser)
    parser.add_argument(
        "--help-keys",
        metavar="TASK",
        nargs="?",
        const="",
        help="list all keys with their defaults and descriptions; with TASK, only its corpora",
    )
    parser.add_argument(
        "--allow",
        metavar="KEY,...",
        default="",
        help="keys and sections that may differ from the recipe that the run was started with:"
        " training.steps,data",
    )


def run(arguments: argparse.Namespace) -> None:
    """Train, then print the best step, if any, and the command that evaluates the run."""
    from attention_zoo import training
    from attention_zoo.training.keys import format_keys

    if arguments.help_keys is not None:
        print(format_keys(arguments.help_keys or None))
        return
    if arguments.recipe is None:
        raise ValueError(
            "the following arguments are required: RECIPE; see `attention-zoo train --help`"
        )
    allow = [name for name in arguments.allow.split(",") if name]
    draw = draw_attention if find_spec("matplotlib") else None  # images in TensorBoard's log
    result = training.fit(
        arguments.recipe,
        arguments.overrides,
        allow=allow,
        draw=draw,
        imports=arguments.imports,
    )
    if result.diverged:
        print(
            "attention-zoo: warning: the training loss rose far above that of the first step, or a"
            " loss is not finite; lower training.learning_rate, or add training.warmup_steps",
            file=sys.stderr,
        )
    if result.best is None:
        print(
            "no best checkpoint: no evaluation returned a finite value; evaluate the newest"
            " checkpoint with"
        )
    else:
        print(f"best checkpoint: step {result.best_step}; evaluate it with")
    print(f"  {format_evaluate_command(result.folder)}")


def draw_attention(task: Any, result: Any) -> Any:
    """Return the attention of a result as pixels; None without attention or tokens."""
    from attention_zoo import inspection

    if result.attention is None or not result.tokens:
        return None
    return inspection.pixels(task.plot(result))
