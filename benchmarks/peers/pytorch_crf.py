"""pytorch-crf 0.7: loss with gradient, and Viterbi decoding, of a linear-chain CRF."""

from __future__ import annotations

from importlib.metadata import version

import common
import torch
from torchcrf import CRF

PEER = f"pytorch-crf {version('pytorch-crf')}"


def main() -> None:
    options = common.arguments(__doc__, ["loss", "viterbi"])
    emissions, tags, lengths, transitions = map(torch.from_numpy, common.make_crf_inputs())
    emissions.requires_grad_()
    mask = torch.arange(common.TOKENS) < lengths[:, None]
    crf = CRF(common.TAGS, batch_first=True)
    crf.transitions.data = transitions

    def train() -> float:
        cost = -crf(emissions, tags.long(), mask=mask, reduction="mean")
        cost.backward()
        emissions.grad = None
        crf.zero_grad()
        return cost.item()

    def search() -> list[list[int]]:
        with torch.no_grad():
            return crf.decode(emissions, mask=mask)

    functions = {"loss": train, "viterbi": search}
    for work in options.work:
        seconds = common.median_seconds(functions[work], options.steps)
        common.report(PEER, work, seconds, sentences_per_second=common.CHAINS / seconds)


if __name__ == "__main__":
    main()
