"""Joey NMT 2.3: training of a recurrent translator with attention, on random token ids."""

from __future__ import annotations

from importlib.metadata import version

import common
import torch
from joeynmt.decoders import RecurrentDecoder
from joeynmt.encoders import RecurrentEncoder

PEER = f"joeynmt {version('joeynmt')}"


class Translator(torch.nn.Module):
    """Bidirectional GRU encoder, LSTM decoder with attention and input feeding."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        sizes = {"emb_size": common.EMBEDDING, "hidden_size": common.UNITS, "num_layers": 1}
        self.source = torch.nn.Embedding(common.VOCABULARY, common.EMBEDDING)
        self.target = torch.nn.Embedding(common.VOCABULARY, common.EMBEDDING)
        self.encoder = RecurrentEncoder(rnn_type="gru", bidirectional=True, **sizes)
        self.decoder = RecurrentDecoder(
            rnn_type="lstm",
            attention=attention,
            encoder=self.encoder,
            vocab_size=common.VOCABULARY,
            init_hidden="bridge",
            input_feeding=True,
            **sizes,
        )

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        lengths = torch.full(source.shape[:1], source.shape[1])
        mask = torch.ones(source.shape[0], 1, source.shape[1], dtype=torch.bool)
        memory, summary = self.encoder(self.source(source), lengths, mask)[:2]
        logits = self.decoder(
            trg_embed=self.target(target[:, :-1]),
            encoder_output=memory,
            encoder_hidden=summary,
            src_mask=mask,
            unroll_steps=target.shape[1] - 1,
            trg_mask=None,
        )[0]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


def main() -> None:
    options = common.arguments(__doc__, ["train"])
    torch.manual_seed(1)
    model = Translator(options.attention)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    ids = (common.FIRST_WORD, common.VOCABULARY)
    source = torch.randint(*ids, (common.BATCH, common.LENGTH))
    target = torch.randint(*ids, (common.BATCH, common.LENGTH + 1))

    def train() -> float:
        optimizer.zero_grad()
        loss = model(source, target)
        loss.backward()
        optimizer.step()
        return loss.item()

    seconds = common.median_seconds(train, options.steps)
    rate = common.BATCH * common.LENGTH / seconds
    common.report(PEER, f"train {options.attention}", seconds, tokens_per_second=rate)


if __name__ == "__main__":
    main()
