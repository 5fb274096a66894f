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
    if isinstance(tokenizer, dict):  # a vocabulary
        model, outputs = build({"vocab_size": len(tokenizer), **given})
        model.save_pretrained(folder)
        np.savez_compressed(there / "expected.npz", **outputs)
        return
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    back = [tokenizer.decode(row, clean_up_tokenization_spaces=False) for row in ids]
    content = {"size": len(tokenizer), "texts": TEXTS, "ids": ids, "back": back}
    (there / "expected.json").write_text(json.dumps(content, indent=1) + "\n")
    model, outputs = build({"vocab_size": len(tokenizer), **given})
    if type(model).__name__.endswith("ForSequenceClassification"):
        outputs["text_logits"] = classify(model, tokenizer)
    if type(model).__name__.endswith("ForTokenClassification"):
        outputs |= tag(model, tokenizer)
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


def roberta_byte_pairs(folder: Path) -> Any:
    """Write a byte-level BPE vocabulary with special tokens of RoBERTa; return its tokenizer."""
    learner = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    learner.train_from_iterator(TEXTS, 280, 2, False, [*special, "<mask>"])
    learner.save_model(str(folder))
    ids = json.loads((folder / "vocab.json").read_text())
    learned = [token for token in ids if token not in (*special, "<mask>")]
    ids = {token: number for number, token in enumerate([*special, *learned, "<mask>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    names = (str(folder / "vocab.json"), str(folder / "merges.txt"))
    return transformers.RobertaTokenizer(*names)


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


def distilbert(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a DistilBERT with the head that `head` names, for right padding."""
    sizes = {"dim": 16, "hidden_dim": 24, "n_heads": 2, "n_layers": 2}
    return encoder("DistilBert", {**sizes, "max_position_embeddings": 12}, given)


def roberta(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a RoBERTa with the head that `head` names, for right padding."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    sizes |= {"num_hidden_layers": 2, "max_position_embeddings": 14, "type_vocab_size": 1}
    return encoder("Roberta", {**sizes, "layer_norm_eps": 1e-5}, given)


def bert_with_head(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a BERT with the head that `head` names, by default a text classifier."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    sizes |= {"num_hidden_layers": 2, "max_position_embeddings": 12}
    return encoder("Bert", sizes, {"head": "ForSequenceClassification", **given})


LABELS = {0: "bad", 1: "neither", 2: "good"}


def encoder(name: str, sizes: dict[str, Any], given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return an encoder with a head ("Model" for none), its hidden states and its logits."""
    head = given.pop("head", "ForMaskedLM")
    labels = {"ForSequenceClassification": LABELS, "ForTokenClassification": TAGS}
    labels = {"id2label": labels[head]} if head in labels else {}
    config = getattr(transformers, f"{name}Config")(**{**sizes, **labels, **given})
    model = randomize(getattr(transformers, f"{name}{head}")(config))
    tokens = torch.randint(config.pad_token_id + 1, config.vocab_size, (ROWS, LENGTH))
    tokens[1, 5:], tokens[2, 1:] = config.pad_token_id, config.pad_token_id
    if config.pad_token_id > 0:
        tokens[:, 0] = tokens[0, 4] = 0
    with torch.no_grad():
        inputs = {"attention_mask": (tokens != config.pad_token_id).long()}
        found = model(tokens, **inputs, output_hidden_states=True)
    hidden = found.last_hidden_state if head == "Model" else found.hidden_states[-1]
    outputs = {"tokens": tokens, "hidden": hidden}
    if head != "Model":
        outputs["logits"] = found.logits
    return model, {name: x.numpy() for name, x in outputs.items()}


def classify(model: Any, tokenizer: Any) -> Any:
    """Return the logits of the non-empty texts, with special tokens, truncated to the positions."""
    length = model.config.max_position_embeddings - model.config.pad_token_id
    length -= model.config.pad_token_id > 0  # RoBERTa counts positions from pad_token_id + 1
    rows = [tokenizer(text, truncation=True, max_length=length)["input_ids"] for text in TEXTS]
    with torch.no_grad():
        logits = [model(torch.tensor([row])).logits[0] for row in rows if len(row) > 2]
    return torch.stack(logits).numpy()


SENTENCES = [
    ["The", "unseen", "cat", "sat", "on", "1,234.5", "mats", "."],
    ["\u6771\u4eac", "is", "\u00c7a", "?"],
    ["seens"],
]
TAGS = {0: "O", 1: "B-A", 2: "I-A", 3: "B-B", 4: "I-B"}


def tag(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return the probabilities of the tags of all words, for each aggregation of the pipeline."""
    by_aggregation: dict[str, list[Any]] = {"first": [], "average": [], "max": []}
    for words in SENTENCES:
        rows = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        if isinstance(tokenizer, transformers.RobertaTokenizer):
            later = [f" {word}" for word in words[1:]]
            rows[1:] = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in later]
        ids = [tokenizer.cls_token_id, *[x for row in rows for x in row], tokenizer.sep_token_id]
        with torch.no_grad():
            probabilities = model(torch.tensor([ids])).logits[0].softmax(-1)
        parts = probabilities[1:-1].split([len(row) for row in rows])
        by_aggregation["first"] += [part[0] for part in parts]
        by_aggregation["average"] += [part.mean(0) for part in parts]
        by_aggregation["max"] += [part[part.max(-1).values.argmax()] for part in parts]
    return {name: torch.stack(rows).numpy() for name, rows in by_aggregation.items()}


def marian_pieces(folder: Path) -> Any:
    """Write the vocabulary of a Marian checkpoint without its SentencePiece models; return it."""
    pieces = ["</s>", "<unk>", *(f"\u2581{word}" for word in WORDS.split()), "<pad>"]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return vocabulary


def marian(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a Marian translator, for right padding; id 0 is the end token."""
    size = given["vocab_size"]
    sizes = {"d_model": 16, "max_position_embeddings": 40, "activation_function": "swish"}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 24}
    special = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    config = transformers.MarianConfig(**{**sizes, **special, "scale_embedding": True, **given})
    model = transformers.MarianMTModel(config)
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), ("bias", model.final_logits_bias)]:
            if "embed_positions" not in name:
                weight.add_(0.2 * torch.randn_like(weight))
    source = torch.randint(0, size - 1, (ROWS, LENGTH))
    source[1, 5:], source[2, 2:] = size - 1, size - 1
    target = torch.randint(0, size - 1, (ROWS, LENGTH - 2))
    target[:, 0] = size - 1
    with torch.no_grad():
        inputs = {"attention_mask": (source != size - 1).long(), "decoder_input_ids": target}
        logits = model.eval()(source, **inputs).logits
    outputs = {"source": source, "target": target, "logits": logits}
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
    "bert_classifier": (word_pieces, bert_with_head),
    "distilbert": (word_pieces, distilbert),
    "gpt2": (byte_pairs, gpt2),
    "marian": (marian_pieces, marian),
    "roberta": (roberta_byte_pairs, roberta),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
