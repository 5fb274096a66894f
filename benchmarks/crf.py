"""Speed of a linear-chain CRF: attention_zoo, TensorFlow Addons and pytorch-crf in turn."""

from __future__ import annotations

import sys

import side_by_side

WORKS = {"loss": "CRF, loss and gradient", "viterbi": "CRF, Viterbi"}


def main() -> None:
    options = side_by_side.arguments(__doc__, ["tfa", "pytorch-crf"])
    scripts = {
        "attention_zoo": (sys.executable, "zoo_crf.py"),
        "tfa": (options.tfa_python, "peers/tfa_crf.py"),
        "pytorch-crf": (options.pytorch_crf_python, "peers/pytorch_crf.py"),
    }
    unit = "sentences_per_second"
    for work, title in WORKS.items():
        rates = side_by_side.measure(scripts, work, options.attention, options.rounds, unit)
        side_by_side.report(title, rates, unit, options.rounds)


if __name__ == "__main__":
    main()
