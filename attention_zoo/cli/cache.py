"""List the entries of the cache of prepared data, or remove them."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from attention_zoo.data_cache import DataCache, get_default_folder
from attention_zoo.registry import check_known

ACTIONS = ("list", "clear")
MEGABYTE = 10**6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and the folder."""
    parser.add_argument(
        "action", metavar="ACTION", help="`list` prints the entries, `clear` removes them"
    )
    parser.add_argument(
        "--folder",
        metavar="FOLDER",
        help="folder of the cache, as in data.cache of a recipe (default: $ATTENTION_ZOO_CACHE, or"
        " attention_zoo/data in $XDG_CACHE_HOME or ~/.cache)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the entries, or remove them and print their number."""
    check_known("unknown action", [arguments.action], ACTIONS)
    folder = arguments.folder and Path(arguments.folder)
    if folder and not folder.is_dir():
        raise ValueError(
            f"{folder}: no such folder; pass the folder that data.cache of the recipe names"
        )
    cache = DataCache(folder or get_default_folder())
    if arguments.action == "clear":
        count, freed = cache.clear()
        print(f"{cache.folder}: removed {count} entries, {freed / MEGABYTE:,.1f} MB")
        return
    entries = cache.list_entries()
    for entry in entries:
        created = datetime.fromtimestamp(entry.created).strftime("%Y-%m-%d %H:%M")
        size = f"{entry.bytes / MEGABYTE:10,.1f} MB"
        print(f"{created}  {size}  {entry.kind:11}  {entry.origin}")
    total = sum(entry.bytes for entry in entries) / MEGABYTE
    print(f"{cache.folder}: {len(entries)} entries, {total:,.1f} MB")
