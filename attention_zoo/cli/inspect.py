"""Write the attention of all layers of a model for one input as an interactive HTML page.

The page needs no network. A model that generates text is called with a given output (forced
decoding): the text of --output, or the model's prediction.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from attention_zoo.cli.arguments import add_imports

METHODS = ("integrated_gradients", "gradient_x_input", "occlusion")
NUM_INPUTS = {"text_pair": 2}
NOUNS = {"text_pair": "two texts", "image": "one image file"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the input and the options of the page."""
    parser.add_argument("run", metavar="RUN", help="a run folder or a zoo entry")
    parser.add_argument(
        "inputs", metavar="INPUT", nargs="+", help="a text, two texts of a pair, or an image file"
    )
    parser.add_argument(
        "--html", metavar="FILE", default="attention.html", help="the page (default: %(default)s)"
    )
    parser.add_argument(
        "--output", metavar="TEXT", help="the generated text, such as a reference translation"
    )
    parser.add_argument(
        "--layers", metavar="PATTERN", nargs="+", help='only these layers, such as "decoder/*"'
    )
    parser.add_argument(
        "--attribution", choices=METHODS, help="also attribute the prediction to the input tokens"
    )
    add_imports(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the page, then print the prediction and the page's path."""
    from attention_zoo import tasks
    from attention_zoo.hub import resolve_folder
    from attention_zoo.tasks.attention_report import write_attention_report

    path = Path(arguments.html)
    if not path.parent.is_dir():
        raise ValueError(f"--html {path}: folder {path.parent} does not exist; create it")
    task = tasks.load(resolve_folder(arguments.run))
    result = write_attention_report(
        task,
        _read_input(task, arguments.inputs),
        path,
        output=arguments.output,
        layers=arguments.layers,
        attribution=arguments.attribution,
    )
    print(result.text)
    print(path)


def _read_input(task: Any, inputs: list[str]) -> Any:
    """Return one input of `predict`; ValueError for another number of arguments."""
    kind = task.inputs[0].kind
    count = NUM_INPUTS.get(kind, 1)
    if len(inputs) != count:
        noun = NOUNS.get(kind, "one text")
        raise ValueError(f"task {task.name} takes {noun}, got {len(inputs)}; quote each of them")
    return tuple(inputs) if count > 1 else inputs[0]
