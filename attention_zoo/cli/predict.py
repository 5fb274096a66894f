"""Print one prediction for each line of a file or of standard input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attention_zoo.cli.arguments import (
    apply_overrides,
    check_parent,
    check_picture,
    split_overrides,
)
from attention_zoo.registry import did_you_mean

CHUNK = 1024  # lines predicted before their results are printed
IMAGES = (".jpg", ".jpeg", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the input file, the search options and the output options."""
    parser.add_argument("run", metavar="RUN", help="a run folder, a zoo entry or hf://owner/name")
    parser.add_argument(
        "words",
        metavar="FILE | key=value",
        nargs="*",
        help="a file with one text, or one image path, per line (default: standard input), and"
        " options: search.beam_width=5",
    )
    parser.add_argument(
        "--images", metavar="FOLDER", help="the JPEG and PNG images to search, with subfolders"
    )
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


def run(arguments: argparse.Namespace) -> None:
    """Check all lines, then predict them in order."""
    overrides, files = split_overrides(arguments.words)
    if len(files) > 1:
        raise ValueError(f"{files[1]}: predict reads one file; give one, or pipe several in")
    if arguments.attention:
        check_picture(Path(arguments.attention))
    if arguments.html:
        check_parent(Path(arguments.html))
    from attention_zoo import tasks

    task = tasks.load(arguments.run)
    if arguments.html and not task.has_report():
        raise ValueError(
            f"--html {arguments.html}: task {task.name} has no HTML page; remove --html"
        )
    searched = [one.name for one in task.inputs if one.kind == "image_index"]
    images = _find_images(task, arguments.images, bool(searched))
    apply_overrides(task, overrides, "predict")
    if arguments.n_best and task.search.n_best == 1:
        task.search = task.search.override(n_best=task.search.beam_width)
    name, content = _read(files[0] if files else "-")
    lines = list(_decode_lines(name, content))
    locations = [f"{name}:{number}" for number in range(1, len(lines) + 1)]
    task.check_sources(lines, locations)
    if not arguments.allow_unknown:
        _refuse_unknown(task, lines, locations)
    options: dict[str, Any] = {}
    if task.has_attention_option:
        options["attention"] = bool(arguments.attention or arguments.html)
    options |= {option: task.build_index(images) for option in searched}
    results: list[Any] = []
    for start in range(0, len(lines), CHUNK):
        answers = task.predict(lines[start : start + CHUNK], **options)
        if arguments.attention and any(answer.attention is None for answer in answers):
            raise ValueError(
                f"--attention {arguments.attention}: this model returns no attention weights;"
                " remove the option"
            )
        for number, answer in enumerate(answers, start + 1):
            _print(answer, number, arguments.n_best)
            _warn_of_unknown(answer, locations[number - 1])
            if arguments.attention:
                _draw(task, answer, Path(arguments.attention), number, len(lines))
        results += answers if arguments.html else []
    if arguments.html:
        task.write_report(results, arguments.html)


def _find_images(task: Any, folder: str | None, needs_images: bool) -> list[Path]:
    """Return the images to search; empty for a task that searches none."""
    if folder is None:
        if needs_images:
            raise ValueError(f"task {task.name} needs images to search; add --images FOLDER")
        return []
    if not needs_images:
        raise ValueError(
            f"--images {folder}: task {task.name} does not search images; remove the option"
        )
    if not Path(folder).is_dir():
        raise ValueError(f"--images {folder}: no such folder")
    images = [path for path in Path(folder).rglob("*") if path.suffix.lower() in IMAGES]
    if not images:
        raise ValueError(
            f"--images {folder}: no file ends in {', '.join(IMAGES)}; pass a folder of images"
        )
    return sorted(images)


def _read(name: str) -> tuple[str, bytes]:
    if name == "-":
        return "stdin", sys.stdin.buffer.read()
    try:
        return name, Path(name).read_bytes()
    except FileNotFoundError:
        near = did_you_mean(name, [str(path) for path in Path(name).parent.glob("*")])
        raise ValueError(f"{name}: no such file{near}") from None


def _decode_lines(name: str, content: bytes) -> Iterator[str]:
    """Yield the lines of UTF-8 text; only a line feed ends a line."""
    from attention_zoo.data.reading import decode_utf8

    if not content:
        raise ValueError(f"{name}: is empty; give one text a line")
    raw = content.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(raw, 1):
        yield decode_utf8(f"{name}:{number}", line.removesuffix(b"\r"))


def _refuse_unknown(task: Any, lines: Sequence[str], locations: Sequence[str]) -> None:
    for line, location in zip(lines, locations, strict=True):
        unknown = task.find_unknown_characters(line)
        if unknown:
            shown = ", ".join(map(repr, unknown[:5]))
            raise ValueError(
                f"{location}: unknown characters {shown}; remove them, or map them to the unknown"
                " token with --allow-unknown"
            )


def _print(answer: Any, number: int, n_best: bool) -> None:
    """Print each prediction on one line; a line feed inside it is printed as `\\n`."""
    for result in (answer, *answer.alternatives) if n_best else (answer,):
        prefix = f"{number}\t{result.score:.4f}\t" if n_best else ""
        print(prefix + result.text.replace("\r", "\\r").replace("\n", "\\n"), flush=True)


def _warn_of_unknown(answer: Any, location: str) -> None:
    """Print a line on standard error if the vocabulary lacks words of the source."""
    if answer.unknown:
        count = f"{len(answer.unknown)} of {len(answer.source_tokens)}"
        positions = ", ".join(str(position + 1) for position in answer.unknown)
        print(f"{location}: unknown words: {count} (position {positions})", file=sys.stderr)


def _draw(task: Any, answer: Any, path: Path, number: int, count: int) -> None:
    """Draw one prediction; with several, the file name contains its number."""
    if count > 1:
        path = path.with_stem(f"{path.stem}-{number}")
    if answer.tokens:
        task.plot(answer, path)
    else:
        print(f"{path}: not drawn, the prediction is empty", file=sys.stderr)
