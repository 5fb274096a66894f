"""Print one prediction for each input: lines of a file or of standard input, or images."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attention_zoo.cli.arguments import (
    add_dtype,
    add_imports,
    apply_overrides,
    check_parent,
    check_picture,
    split_overrides,
)
from attention_zoo.cli.image_inputs import BLANK_PATH, find_images, has_many_images
from attention_zoo.cli.input_options import (
    read_data_options,
    read_images,
    read_inputs,
    split_input_options,
)
from attention_zoo.cli.inputs import READERS, split_batches
from attention_zoo.cli.items import Item
from attention_zoo.cli.sentences import format_sentence

DEFAULT_BATCH_SIZE = 1024  # inputs predicted at a time
Prediction = tuple[Item, Any]
"""An input and its result; None for lines of a CoNLL file without words."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the inputs, their format, the search options and the output options."""
    parser.add_argument("run", metavar="RUN", help="a run folder, a zoo entry or hf://owner/name")
    add_imports(parser)
    add_dtype(parser)
    parser.add_argument(
        "words",
        metavar="FILE | key=value",
        nargs="*",
        help="a file of texts, one per line (default: standard input) or in a column or field"
        " (.csv, .tsv, .jsonl), or of sentences (.conll, .conllu); of pairs of texts, separated by"
        " a tab or in two columns or fields; image files, folders, .zip, .npz or COCO .json files,"
        " or lists of paths; and options: search.beam_width=5, data.header, data.delimiter,"
        " data.words, data.comment, data.conllu (default: the recipe's values)",
    )
    parser.add_argument(
        "--format",
        choices=sorted(READERS),
        help="format of the file (default: by its name, its lines and the training data)",
    )
    parser.add_argument(
        "--field",
        metavar="NAME",
        help="column or field of the texts, or its number from 0 in a table without a header"
        " (default: data.source or data.text of the recipe, or text, source and so on); of pairs of"
        " texts NAME,NAME (default: data.first and data.second, or first,second and so on); for"
        " images, column or field of the paths (default: data.image or image), or array of an .npz"
        " file",
    )
    parser.add_argument(
        "--pretokenized",
        action="store_true",
        help="for taggers: texts are words separated by spaces or tabs",
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=int,
        default=DEFAULT_BATCH_SIZE,
        help=f"inputs per batch (default: {DEFAULT_BATCH_SIZE}); a pipe is predicted as it arrives",
    )
    parser.add_argument(
        "--images",
        metavar="FOLDER",
        help="the images to search: a folder with its subfolders, a zip, or a list of paths",
    )
    _add_output_arguments(parser)


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of what is printed and written."""
    parser.add_argument(
        "--attention",
        metavar="PNG",
        help="plot the attention weights; several lines are plotted to out-1.png, out-2.png ...",
    )
    parser.add_argument("--html", metavar="FILE", help="also write an HTML page of all predictions")
    parser.add_argument(
        "--n-best",
        action="store_true",
        help="print search.n_best hypotheses (default: beam_width): line number, score, text",
    )
    parser.add_argument(
        "--allow-unknown",
        action="store_true",
        help="accept unknown characters and map them to the unknown token",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="print nothing and fail if an input has no prediction (default: an empty line)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the results in the order of the inputs, then write pictures and the page."""
    overrides, files = split_overrides(arguments.words)
    input_options, overrides = split_input_options(overrides)
    _check_arguments(arguments)
    from attention_zoo import tasks
    from attention_zoo.hub import resolve_folder
    from attention_zoo.zoo import find_recipe_of

    folder = resolve_folder(arguments.run)
    task = tasks.load(folder, arguments.dtype)
    if arguments.html and not task.has_report():
        raise ValueError(
            f"--html {arguments.html}: task {task.name} has no HTML page; remove --html"
        )
    _apply_overrides(task, overrides, arguments.n_best)
    task.check_sources([])  # raises if the task cannot predict from lines
    data = read_data_options(find_recipe_of(folder))
    options = _make_options(task, arguments, data)
    items = read_inputs(task, files, arguments, data, input_options)
    if arguments.strict:
        items = _refuse_invalid(task, list(items), arguments.allow_unknown)
    batches = split_batches(items, arguments.batch_size, is_stream=files in ([], ["-"]))
    predictions: Iterator[Prediction] = (
        prediction
        for batch in batches
        for prediction in _predict(task, batch, options, arguments.allow_unknown)
    )
    if arguments.strict:
        predictions = iter(list(_refuse_failed(predictions)))
    print_result = functools.partial(
        _print,
        n_best=arguments.n_best or task.search.n_best > 1,
        has_name=task.inputs[0].kind == "image" and any(map(has_many_images, files)),
        tag_column=data["tags"] if isinstance(data.get("tags"), int) else None,
    )
    kept, failed, number = [], [], 0
    for item, result in predictions:
        if result is None:
            print_result(item, result, number)
            continue
        number += 1
        if arguments.attention and result.ok and result.attention is None:
            raise ValueError(
                f"--attention {arguments.attention}: this model returns no attention weights;"
                " remove the option"
            )
        print_result(item, result, number)
        _warn_of_unknown(result, item.location)
        if not result.ok:
            failed.append(f"{item.location}: {result.error}")
        elif arguments.attention or arguments.html:
            kept.append((number, result))
    if failed:
        count = f"{len(failed):,} of {number:,} inputs"
        print(f"skipped {count}; the first: {failed[0]}", file=sys.stderr)
    for index, result in kept if arguments.attention else ():
        _draw(task, result, Path(arguments.attention), index, number)
    if arguments.html:
        task.write_report([result for _, result in kept], arguments.html)


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Raise ValueError for options that are invalid for every task."""
    if arguments.attention:
        check_picture(Path(arguments.attention))
    if arguments.html:
        check_parent(Path(arguments.html))
    if arguments.batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1, got {arguments.batch_size}")


def _apply_overrides(task: Any, overrides: list[str], show_n_best: bool) -> None:
    """Apply the overrides; `search.n_best` alone raises `search.beam_width` as well."""
    keys = dict(text.partition("=")[::2] for text in overrides)
    count, search = keys.get("search.n_best", ""), task.search
    is_wider = task.uses_beam_search and count.isdecimal() and int(count) > search.beam_width
    if is_wider and "search.beam_width" not in keys and search.method != "contrastive":
        overrides = [f"search.beam_width={count}", *overrides]
    apply_overrides(task, overrides, "predict")
    if show_n_best and task.search.n_best == 1:
        task.search = task.search.override(n_best=task.search.beam_width)


def _make_options(task: Any, arguments: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of `task.predict`."""
    options: dict[str, Any] = {}
    if task.has_attention_option:
        options["attention"] = bool(arguments.attention or arguments.html)
    searched = [argument.name for argument in task.inputs if argument.kind == "image_index"]
    images = arguments.images
    if searched and images is None:
        raise ValueError(f"task {task.name} needs images to search; add --images FOLDER")
    if images is not None and not searched:
        raise ValueError(
            f"--images {images}: task {task.name} does not search images; remove the option"
        )
    if searched:
        options |= dict.fromkeys(searched, _build_index(task, images, data))
    return options


def _build_index(task: Any, images: str, data: dict[str, Any]) -> Any:
    """Return the index of the images in a folder, an image file, a zip file or a list of paths.

    A list is read as in training, with the options `data` of the run; blank lines are skipped.
    """
    if not Path(images).exists():
        raise ValueError(f"--images {images}: no such file or folder")
    if Path(images).is_dir():
        return task.build_index(find_images(images, f"--images {images}"))
    items = [item for item in read_images([images], data) if item.error != BLANK_PATH]
    if not items:
        raise ValueError(f"--images {images}: lists no image; pass a folder or a list of images")
    for item in items:
        if item.error:
            raise ValueError(f"--images {item.location}: {item.error}")
    names = [item.value if isinstance(item.value, str) else item.location for item in items]
    return task.build_index([item.value for item in items], names)


def _predict(
    task: Any, items: Sequence[Item], options: dict[str, Any], allow_unknown: bool
) -> Iterator[Prediction]:
    """Yield the items with their results."""
    errors = [item.error or ("" if allow_unknown else _check_known(task, item)) for item in items]
    pairs = list(zip(items, errors, strict=True))
    values = [item.value for item, error in pairs if item.is_input and not error]
    results = iter(task.predict(values, on_error="skip", **options) if values else ())
    for item, error in pairs:
        if not item.is_input:
            yield item, None
        else:
            yield item, task.result_class.failed(error) if error else next(results)


def _check_known(task: Any, item: Item) -> str:
    """Return an error if the vocabulary lacks characters of an input's texts; else ""."""
    if task.inputs[0].kind == "image" or not item.is_input:
        return ""
    text = item.value if isinstance(item.value, str) else " ".join(item.value)
    if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return ""  # `predict` rejects it
    unknown = task.find_unknown_characters(text)
    if not unknown:
        return ""
    shown = ", ".join(map(repr, unknown[:5]))
    return (
        f"unknown characters {shown}; remove them, or map them to the unknown token with"
        " --allow-unknown"
    )


def _refuse_invalid(task: Any, items: list[Item], allow_unknown: bool) -> Iterator[Item]:
    """Return the items; raise ValueError for the first that is invalid, before any is predicted."""
    for item in items:
        error = item.error or ("" if allow_unknown else _check_known(task, item))
        if error:
            raise ValueError(f"{item.location}: {error}")
        # Images are large, so they are checked when they are read.
        if task.inputs[0].kind != "image" and item.is_input:
            task.check_sources([item.value], [item.location])
    return iter(items)


def _refuse_failed(predictions: Iterator[Prediction]) -> Iterator[Prediction]:
    """Yield the inputs with their results; raise ValueError for the first without a prediction."""
    for item, result in predictions:
        if result is not None and not result.ok:
            raise ValueError(f"{item.location}: {result.error}")
        yield item, result


def _print(
    item: Item, result: Any, number: int, n_best: bool, has_name: bool, tag_column: int | None
) -> None:
    """Print each prediction on one line; a line feed inside it is printed as `\\n`.

    Args:
        item: the input; a sentence of a CoNLL file is printed with its tags.
        result: its result, or None.
        number: its number, from 1.
        n_best: print the alternatives too, each with its number and score.
        has_name: whether lines begin with the path of the image.
        tag_column: see `format_sentence`.
    """
    if item.sentence:
        tags = result.tags if result else ()
        print(format_sentence(item.sentence, tags, tag_column), flush=True)
        return
    n_best = n_best and result.ok
    for hypothesis in (result, *result.alternatives) if n_best else (result,):
        prefix = f"{item.location}\t" if has_name else ""
        prefix += f"{number}\t{hypothesis.score:.4f}\t" if n_best else ""
        print(prefix + hypothesis.text.replace("\r", "\\r").replace("\n", "\\n"), flush=True)


def _warn_of_unknown(prediction: Any, location: str) -> None:
    """Print a line on standard error if the vocabulary lacks words of the source."""
    if prediction.unknown:
        count = f"{len(prediction.unknown)} of {len(prediction.source_tokens)}"
        positions = ", ".join(str(position + 1) for position in prediction.unknown)
        print(f"{location}: unknown words: {count} (position {positions})", file=sys.stderr)


def _draw(task: Any, prediction: Any, path: Path, number: int, count: int) -> None:
    """Draw one prediction; with several, the file name contains its number."""
    if count > 1:
        path = path.with_stem(f"{path.stem}-{number}")
    if prediction.tokens:
        task.plot(prediction, path)
    else:
        print(f"{path}: not drawn, the prediction is empty", file=sys.stderr)
