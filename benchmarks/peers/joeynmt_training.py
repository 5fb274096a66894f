"""Joey NMT 2.3: training of a Transformer on random token ids."""

from __future__ import annotations

from importlib.metadata import version

import common
import numpy as np
import torch
from joeynmt.decoders import TransformerDecoder
from joeynmt.embeddings import Embeddings
from joeynmt.encoders import TransformerEncoder


class Translator(torch.nn.Module):
    """Pre-norm Transformer; embeddings and output share one matrix; padding (0) is masked."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {
            "num_layers": common.LAYERS,
            "num_heads": common.HEADS,
            "hidden_size": common.WIDTH,
            "ff_size": common.INNER,
            "dropout": common.DROPOUT,
            "emb_dropout": common.DROPOUT,
            "layer_norm": "pre",
        }
        self.table = Embeddings(
            embedding_dim=common.WIDTH, scale=True, vocab_size=common.VOCABULARY, padding_idx=0
        )
        self.encoder = TransformerEncoder(emb_size=common.WIDTH, **sizes)
        self.decoder = TransformerDecoder(vocab_size=common.VOCABULARY, **sizes)
        self.decoder.output_layer.weight = self.table.lut.weight

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        source_mask, target_mask = (source != 0).unsqueeze(1), (target != 0).unsqueeze(1)
        lengths = (source != 0).sum(1)
        memory, summary = self.encoder(self.table(source), lengths, source_mask)[:2]
        return self.decoder(
            trg_embed=self.table(target[:, :-1]),
            encoder_output=memory,
            encoder_hidden=summary,
            src_mask=source_mask,
            unroll_steps=None,
            hidden=None,
            trg_mask=target_mask[:, :, :-1],
        )[0]


def main() -> None:
    options = common.arguments(__doc__, ["train"])
    torch.manual_seed(1)
    model = Translator()
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def train(source: np.ndarray, target: np.ndarray) -> float:
        source, target = torch.from_numpy(source).long(), torch.from_numpy(target).long()
        optimizer.zero_grad()
        logits, labels = model(source, target), target[:, 1:]
        flat = logits.flatten(0, 1), labels.flatten()
        loss = torch.nn.functional.cross_entropy(*flat, ignore_index=0)
        loss.backward()
        optimizer.step()
        return loss.item()

    common.time_batches(f"joeynmt {version('joeynmt')}", "train", train, options.steps)


if __name__ == "__main__":
    main()
