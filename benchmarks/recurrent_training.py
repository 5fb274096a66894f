"""Training speed of a recurrent translator: attention_zoo, TensorFlow Addons, Joey NMT in turn."""

from __future__ import annotations

import sys

import side_by_side


def main() -> None:
    options = side_by_side.arguments(__doc__, ["tfa", "joeynmt"])
    scripts = {
        "attention_zoo": (sys.executable, "zoo_recurrent.py"),
        "tfa": (options.tfa_python, "peers/tfa_recurrent.py"),
        "joeynmt": (options.joeynmt_python, "peers/joeynmt_recurrent.py"),
    }
    unit, attention = "tokens_per_second", options.attention
    rates = side_by_side.measure(scripts, "train", attention, options.rounds, unit)
    title = f"Training a recurrent translator, {attention}"
    side_by_side.report(title, rates, unit, options.rounds)


if __name__ == "__main__":
    main()
