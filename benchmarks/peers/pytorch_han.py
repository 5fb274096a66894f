"""PyTorch: training of a hierarchical attention network with packed sequences.

Empty sentences are dropped, and both GRUs read packed sequences, so no padding is computed.
"""

from __future__ import annotations

import common
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Level(nn.Module):
    """Bidirectional GRU, and the mean of its states by attention with a learned query."""

    def __init__(self, width: int) -> None:
        super().__init__()
        units = common.HAN_UNITS
        self.gru = nn.GRU(width, units // 2, bidirectional=True, batch_first=True)
        self.hidden = nn.Linear(units, units)
        self.query = nn.Linear(units, 1, bias=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        scores = self.query(torch.tanh(self.hidden(states)))[..., 0]
        mask = torch.arange(states.shape[1]) < lengths[:, None]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return torch.einsum("nt,ntd->nd", weights, states)


class HAN(nn.Module):
    """Hierarchical attention network (Yang et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(common.VOCABULARY, common.HAN_EMBEDDING, padding_idx=0)
        self.words, self.sentences = Level(common.HAN_EMBEDDING), Level(common.HAN_UNITS)
        self.head = nn.Linear(common.HAN_UNITS, common.HAN_CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        lengths = (tokens != 0).sum(-1)
        is_sentence = lengths > 0
        vectors = self.words(self.embedding(tokens[is_sentence]), lengths[is_sentence])
        numbers = is_sentence.sum(-1)
        documents = nn.utils.rnn.pad_sequence(vectors.split(numbers.tolist()), batch_first=True)
        return self.head(self.sentences(documents, numbers))


def main() -> None:
    options = common.arguments(__doc__, ["train"])
    torch.manual_seed(1)
    model = HAN()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def train(tokens: np.ndarray, classes: np.ndarray) -> None:
        loss = nn.functional.cross_entropy(
            model(torch.from_numpy(tokens)), torch.from_numpy(classes)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    common.time_documents(f"pytorch {torch.__version__}", train, options.steps)


if __name__ == "__main__":
    main()
