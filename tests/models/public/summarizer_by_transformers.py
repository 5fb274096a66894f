"""Train a small BART or T5 with `transformers`; write its logits, generated tokens and texts.

    python summarizer_by_transformers.py bart|t5|t5_gated FOLDER [COUNT [SEED]]

With COUNT 0, nothing is generated.

It runs in an environment with torch, transformers and sentencepiece, so nothing of attention_zoo is
imported. The folder then holds the files of a released model, and `expected.json`: source texts
and, for several generation configs, the generated ids and the scores of beam search;
`expected.npz` has the logits of a padded batch.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers

STEPS, BATCH = 200, 64
FEWER = 30
"""Number of texts that are generated with all options but the first two, which have COUNT."""
NUM_WORDS = {"bart": 40, "t5": 16}  # a T5 learns more slowly
ROWS, LENGTH = 3, 9
SYLLABLES = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "zi"]
PREFIX = "summarize: "
OPTIONS: list[dict[str, Any]] = [
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 4, "early_stopping": False, "length_penalty": 1.0},
    {"num_beams": 4, "min_length": 12},
    {"num_beams": 4, "max_length": 7},
    {"num_beams": 4, "no_repeat_ngram_size": 0},
    {"num_beams": 1, "repetition_penalty": 1.6},
    {"num_beams": 4, "min_length": 12, "renormalize_logits": True},
    {"num_beams": 4, "encoder_no_repeat_ngram_size": 2},
]
BART_OPTIONS = [{"num_beams": 4, "forced_bos_token_id": 9}]


def make_texts(rng: random.Random, count: int, num_words: int) -> tuple[list[str], list[str]]:
    """Return sources, and summaries: the translation of every second word."""
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(num_words)]
    by_word = {word: "".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for word in words}
    sources, targets = [], []
    for _ in range(count):
        chosen = rng.choices(words, k=rng.randint(4, 12))
        sources.append(f"{' '.join(chosen)}.")
        targets.append(" ".join(by_word[word] for word in chosen[::2]) + "!")
    return sources, targets


def train_byte_pairs(folder: Path, texts: list[str]) -> Callable[[str], list[int]]:
    """Write the tokenizer of a BART; return the function that encodes a text."""
    learner = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    learner.train_from_iterator(texts, 330, 2, False, [*special, "<mask>"])
    learner.save_model(str(folder))
    ids = json.loads((folder / "vocab.json").read_text())
    learned = [token for token in ids if token not in (*special, "<mask>")]
    ids = {token: number for number, token in enumerate([*special, *learned, "<mask>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    names = (str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = transformers.BartTokenizer(*names)
    return lambda text: tokenizer(text)["input_ids"]


def train_pieces(folder: Path, texts: list[str]) -> Callable[[str], list[int]]:
    """Write the tokenizer of a T5; return the function that encodes a text."""
    with (folder / "spiece.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([PREFIX + text for text in texts]),
            model_writer=file,
            vocab_size=70,
            hard_vocab_limit=False,
            num_threads=1,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            normalization_rule_name="identity",
            minloglevel=2,
        )
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 3}) + "\n")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    return lambda text: [*processor.encode(text), 1]


def build_bart(size: int) -> Any:
    """Return a BART; the decoder starts with the end token."""
    sizes = {"d_model": 32, "max_position_embeddings": 64, "encoder_layers": 2}
    sizes |= {"decoder_layers": 1}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
    config = transformers.BartConfig(vocab_size=size, init_std=0.1, **sizes)
    return transformers.BartForConditionalGeneration(config)


def build_t5(size: int, *, gated: bool) -> Any:
    """Return a T5, of version 1.1 with a gate; its vocabulary is larger than the tokenizer's."""
    sizes = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_heads": 4, "num_layers": 2}
    if gated:
        sizes |= {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = transformers.T5Config(
        vocab_size=size,
        num_decoder_layers=1,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        decoder_start_token_id=0,
        **sizes,
    )
    model = transformers.T5ForConditionalGeneration(config)
    if gated:
        model.lm_head.weight = torch.nn.Parameter(0.1 * torch.randn(size, 32))
    return model


def pad(rows: list[list[int]], token: int) -> torch.Tensor:
    """Return the rows with padding at the end."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[token] * (longest - len(row))] for row in rows])


def train(model: Any, sources: list[list[int]], targets: list[list[int]]) -> None:
    """Train for `STEPS` batches, then round the weights to float16."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 6e-3)
    token = model.config.pad_token_id
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        source, labels = pad(sources[rows], token), pad(targets[rows], token)
        labels[labels == token] = -100
        loss = model(source, attention_mask=(source != token).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss of the last batch:", round(loss.item(), 3))
    model.eval().half()


def compute_logits(model: Any) -> dict[str, Any]:
    """Return the logits of random tokens with right padding; id 0 is in the texts of a BART."""
    config = model.config
    source = torch.randint(config.pad_token_id + 1, config.vocab_size, (ROWS, LENGTH))
    if config.pad_token_id > 0:
        source[:, 0] = source[0, 4] = 0
    source[1, 5:], source[2, 2:] = config.pad_token_id, config.pad_token_id
    target = torch.randint(config.pad_token_id + 1, config.vocab_size, (ROWS, LENGTH - 2))
    target[:, 0] = config.decoder_start_token_id
    with torch.no_grad():
        mask = (source != config.pad_token_id).long()
        logits = model(source, attention_mask=mask, decoder_input_ids=target).logits
    outputs = {"source": source, "target": target, "logits": logits}
    return {name: x.numpy() for name, x in outputs.items()}


def generate(model: Any, sources: list[list[int]], options: dict[str, Any]) -> Any:
    """Return the generated ids without the start token and padding, and the scores."""
    end, rows, scores = model.config.eos_token_id, [], []
    for source in sources:  # one at a time, so without padding
        output = model.generate(
            torch.tensor([source]),
            **options,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        ids = output.sequences[0, 1:].tolist()
        rows.append(ids[: ids.index(end) + 1] if end in ids else ids)
        if options["num_beams"] > 1:
            scores.append(output.sequences_scores[0].item())
    return rows, scores


def main(family: str, name: str, given: str = "200", seed: str = "7") -> None:
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    total = int(given)
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    is_bart = family == "bart"
    num_words = NUM_WORDS["bart" if is_bart else "t5"]
    sources, targets = make_texts(random.Random(int(seed)), STEPS * BATCH + total, num_words)
    encode = (train_byte_pairs if is_bart else train_pieces)(
        folder, [*sources[:2000], *targets[:2000]]
    )
    prefix = "" if is_bart else PREFIX
    source_ids = [encode(prefix + text) for text in sources]
    target_ids = [encode(text) for text in targets]
    size = max(max(row) for row in (*source_ids, *target_ids)) + 8
    if is_bart:
        size = len(json.loads((folder / "vocab.json").read_text()))
    model = build_bart(size) if is_bart else build_t5(size, gated=family == "t5_gated")
    config = model.config
    special = ("pad_token_id", "eos_token_id", "decoder_start_token_id", "bos_token_id")
    forced = {"forced_bos_token_id": 0, "forced_eos_token_id": 2} if is_bart else {}
    model.generation_config = transformers.GenerationConfig(
        **{field: getattr(config, field, None) for field in special},
        **forced,
        early_stopping=True,
        length_penalty=2.0,
        max_length=24,
        min_length=4,
        no_repeat_ngram_size=3,
        num_beams=4,
    )
    if not is_bart:
        config.task_specific_params = {"summarization": {"prefix": PREFIX}}
    train(model, source_ids, target_ids)
    model.save_pretrained(folder)
    model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    np.savez_compressed(folder / "expected.npz", **compute_logits(model))
    if not total:
        return
    texts, cases = sources[STEPS * BATCH :], []
    for number, options in enumerate([*OPTIONS, *(BART_OPTIONS if is_bart else [])]):
        count = total if number < 2 else FEWER
        rows, scores = generate(model, source_ids[STEPS * BATCH :][:count], options)
        cases.append({"options": options, "ids": rows, "scores": scores})
        print(options, len({str(row) for row in rows}), "different outputs")
    (folder / "expected.json").write_text(json.dumps({"sources": texts, "cases": cases}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
