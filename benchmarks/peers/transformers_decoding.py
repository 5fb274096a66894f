"""PyTorch: greedy and beam search (beam width 5) of a Marian model of `transformers`.

The model has random weights; it is post-norm and its embeddings are tied, unlike those of the other
libraries, which changes the number of operations very little.
"""

from __future__ import annotations

import argparse

import common
import torch
import transformers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=5, metavar="N", help="depth heads width ffn vocab")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    depth, heads, width, inner, vocabulary = options.sizes
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    sizes = {"d_model": width, "encoder_layers": depth, "decoder_layers": depth}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_attention_heads": heads, f"{side}_ffn_dim": inner}
    tokens = {"vocab_size": vocabulary, "pad_token_id": 0, "eos_token_id": 3}
    config = transformers.MarianConfig(**tokens, decoder_start_token_id=2, **sizes)
    model = transformers.MarianMTModel(config).eval().to(getattr(torch, options.dtype))
    source = torch.randint(4, vocabulary, (common.SEARCH_BATCH, common.LENGTH))
    length = {"min_new_tokens": common.LENGTH, "max_new_tokens": common.LENGTH}
    for beam in (1, 5):
        seconds = common.median_seconds(
            lambda beam=beam: model.generate(source, num_beams=beam, do_sample=False, **length), 4
        )
        rate = common.SEARCH_BATCH / seconds
        common.report("transformers", f"beam {beam}", seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
