"""Training speed of a hierarchical attention network: attention_zoo and PyTorch in turn."""

from __future__ import annotations

import sys

import side_by_side


def main() -> None:
    options = side_by_side.arguments(__doc__, ["pytorch-han"])
    scripts = {
        "attention_zoo": (sys.executable, "zoo_han.py"),
        "pytorch": (options.pytorch_han_python, "peers/pytorch_han.py"),
    }
    unit = "words_per_second"
    rates = side_by_side.measure(scripts, "train", options.attention, options.rounds, unit)
    side_by_side.report("Training a hierarchical attention network", rates, unit, options.rounds)


if __name__ == "__main__":
    main()
