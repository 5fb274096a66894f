"""Writes a small random checkpoint as `transformers` does, and what it puts out.

    python by_transformers.py FAMILY FOLDER [key=value ...]

It runs in an environment with torch and transformers, so nothing of attention_zoo is imported. The
folder then holds the files of a released model, and `expected.npz` (inputs and outputs) and
`expected.json` (the ids of texts, and texts of ids) beside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

ROWS, LENGTH = 3, 9


def main(family: str, folder: str, *settings: str) -> None:
    transformers.logging.set_verbosity_error()
    torch.manual_seed(7)
    given = {name: json.loads(value) for name, _, value in (s.partition("=") for s in settings)}
    there = Path(folder)
    there.mkdir(parents=True, exist_ok=True)
    texts, build = FAMILIES[family]
    tokenizer = texts(there)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    back = [tokenizer.decode(row, clean_up_tokenization_spaces=False) for row in ids]
    content = {"size": len(tokenizer), "texts": TEXTS, "ids": ids, "back": back}
    (there / "expected.json").write_text(json.dumps(content, indent=1) + "\n")
    model, outputs = build({"vocab_size": len(tokenizer), **given})
    model.save_pretrained(folder)
    np.savez_compressed(there / "expected.npz", **outputs)


TEXTS = [
    "the cat sat on a mat.",
    "The cat, unseen,  sat [MASK]!",
    "Ça va? 東京 is 1,234.5 km away",
    "x" * 120,
    "",
    "a\tb\u00a0c<|endoftext|> d",
]
WORDS = "the cat sat on a mat un seen s e n is . , ! ? va ca 東 京 1 2 3 4 5 km x b c d ##seen ##s"


def word_pieces(folder: Path) -> Any:
    """Return a vocabulary of a few words and its tokenizer."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return transformers.BertTokenizer(str(folder / "vocab.txt"))


def byte_pairs(folder: Path) -> Any:
    """Return a vocabulary of all bytes and a few merges, and its tokenizer."""
    learner = tokenizers.ByteLevelBPETokenizer()
    learner.train_from_iterator(TEXTS, 275, 2, False, ["<|endoftext|>"])
    learner.save_model(str(folder))
    ids = json.loads((folder / "vocab.json").read_text())
    ids = {token: number - 1 for token, number in ids.items() if token != "<|endoftext|>"}
    ids["<|endoftext|>"] = len(ids)
    (folder / "vocab.json").write_text(json.dumps(ids))
    names = (str(folder / "vocab.json"), str(folder / "merges.txt"))
    return transformers.GPT2Tokenizer(*names)


def randomize(model: Any) -> Any:
    """Randomize all weights: initial biases of 0 and scales of 1 would hide errors."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def bert(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a BERT with a masked language modeling head, for right padding and two segments."""
    sizes = {"hidden_size": 16, "intermediate_size": 24}
    sizes |= {"num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 12}
    head = given.pop("head", True)
    config = transformers.BertConfig(**{**sizes, **given})
    kind = transformers.BertForPreTraining if head else transformers.BertModel
    model = randomize(kind(config))
    tokens = torch.randint(1, config.vocab_size, (ROWS, LENGTH))
    tokens[1, 5:], tokens[2, 1:] = 0, 0
    segments = (torch.arange(LENGTH) > 3).long().expand(ROWS, LENGTH)
    with torch.no_grad():
        inputs = {"attention_mask": (tokens != 0).long(), "token_type_ids": segments}
        encoder = model.bert if head else model
        found = encoder(tokens, **inputs)
        outputs = {"hidden": found.last_hidden_state, "pooled": found.pooler_output}
        if head:
            outputs["logits"] = model(tokens, **inputs).prediction_logits
    outputs |= {"tokens": tokens, "segments": segments}
    return model, {name: x.numpy() for name, x in outputs.items()}


def gpt2(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a GPT-2 with its head; the last token of its vocabulary is the end token."""
    sizes = {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 12, **given}
    end = sizes["vocab_size"] - 1
    config = transformers.GPT2Config(**sizes, bos_token_id=end, eos_token_id=end)
    model = randomize(transformers.GPT2LMHeadModel(config))
    tokens = torch.randint(0, end, (ROWS, LENGTH))
    tokens[:, 0] = end
    with torch.no_grad():
        logits = model(tokens).logits
    return model, {"tokens": tokens.numpy(), "logits": logits.numpy()}


FAMILIES: dict[str, tuple[Callable[[Path], Any], Callable[[dict[str, Any]], Any]]] = {
    "bert": (word_pieces, bert),
    "gpt2": (byte_pairs, gpt2),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
