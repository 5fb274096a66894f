"""Training speed of a Transformer: attention_zoo, KerasHub and Joey NMT in turn, same batches."""

from __future__ import annotations

import sys

import side_by_side


def main() -> None:
    options = side_by_side.arguments(__doc__, ["kerashub", "joeynmt"])
    scripts = {
        "attention_zoo": (sys.executable, "zoo_transformer_training.py"),
        "kerashub": (options.kerashub_python, "peers/kerashub_training.py"),
        "joeynmt": (options.joeynmt_python, "peers/joeynmt_training.py"),
    }
    unit = "tokens_per_second"
    rates = side_by_side.measure(scripts, "train", options.attention, options.rounds, unit)
    side_by_side.report("Training a Transformer on captions", rates, unit, options.rounds)


if __name__ == "__main__":
    main()
