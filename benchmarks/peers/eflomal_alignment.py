"""eflomal: word alignments of sentence pairs.

    python eflomal_alignment.py INPUT.json OUTPUT.json

The input is a list of pairs (source words, target words). The output is, for each pair, a list of
links (target position, source position), from 0: at most one for each target word.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from eflomal import Aligner


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    pairs = json.loads(source.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("source", "target", "links")]
        for side, file in enumerate(files[:2]):
            file.write_text("".join(" ".join(pair[side]) + "\n" for pair in pairs), "utf-8")
        with files[0].open(encoding="utf-8") as sources, files[1].open(encoding="utf-8") as targets:
            Aligner().align(sources, targets, links_filename_fwd=str(files[2]))
        lines = files[2].read_text("utf-8").splitlines()
    links = [[[*map(int, link.split("-"))][::-1] for link in line.split()] for line in lines]
    target.write_text(json.dumps(links), "utf-8")


if __name__ == "__main__":
    main()
