"""Train a small Marian translator with `transformers`; write its generated tokens and texts.

    python translator_by_transformers.py FOLDER [SEED [VOCABULARIES]]

It runs in an environment with torch, transformers and sentencepiece, so nothing of attention_zoo is
imported. The folder then holds the files of a released translator of two target languages, and
`expected.json`: source texts and, for several generation configs, the generated ids and texts and
the scores of beam search. With VOCABULARIES=2, source and target have separate vocabularies.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

STEPS, BATCH = 200, 64
COUNT, FEWER = 200, 30  # texts that are generated
SYLLABLES = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "zi"]
CODES = [">>aaa<<", ">>bbb<<"]
OPTIONS: list[dict[str, Any]] = [
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 4, "early_stopping": True},
    {"num_beams": 4, "early_stopping": "never"},
    {"num_beams": 4, "length_penalty": 0.0},
    {"num_beams": 4, "length_penalty": 2.0},
    {"num_beams": 4, "renormalize_logits": False},
    {"num_beams": 4, "forced_eos_token_id": None},
    {"num_beams": 4, "min_length": 16},
    {"num_beams": 4, "max_length": 9},
    {"num_beams": 4, "max_new_tokens": 12},
    {"num_beams": 4, "min_new_tokens": 14, "max_new_tokens": 20},
    {"num_beams": 4, "no_repeat_ngram_size": 2},
    {"num_beams": 1, "repetition_penalty": 1.6},
    {"num_beams": 4, "suppress_tokens": [5, 6]},
    {"num_beams": 4, "bad_words_ids": [[4], [6]]},
    {"num_beams": 4, "bad_words_ids": [[4], [6]], "renormalize_logits": False},
]


def make_texts(rng: random.Random, count: int) -> tuple[list[str], list[str]]:
    """Return sources with a language code, and targets: words in order, or reversed."""
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(40)]
    by_code = {
        code: {word: "".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for word in words}
        for code in CODES
    }
    sources, targets = [], []
    for _ in range(count):
        code = rng.choice(CODES)
        chosen = rng.choices(words, k=rng.randint(1, 8))
        translated = [by_code[code][word] for word in chosen]
        sources.append(f"{code} {' '.join(chosen)}.")
        targets.append(" ".join(reversed(translated) if code == CODES[1] else translated) + "!")
    return sources, targets


def train_tokenizer(folder: Path, sources: list[str], targets: list[str], vocabularies: int) -> Any:
    """Write `source.spm`, `target.spm` and the vocabularies; return the tokenizer."""
    plain = [text.partition(" ")[2] for text in sources]
    pieces: list[list[str]] = []
    for side, texts in (("source", plain), ("target", targets)):
        with (folder / f"{side}.spm").open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=file,
                vocab_size=60,
                hard_vocab_limit=False,
                num_threads=1,
                normalization_rule_name="identity",
                minloglevel=2,
            )
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces.append([model.id_to_piece(i) for i in range(3, model.get_piece_size())])
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    if vocabularies == 1:
        write_vocabulary(Path(files[2]), [*dict.fromkeys([*pieces[0], *pieces[1]]), *CODES])
        return transformers.MarianTokenizer(*files)
    files.append(str(folder / "target_vocab.json"))
    sides = {files[2]: [*pieces[0], *CODES], files[3]: pieces[1]}
    size = max(map(len, sides.values()))  # the same for both, as in released checkpoints
    for path, names in sides.items():
        unused = [f"<unused{number}>" for number in range(size - len(names))]
        write_vocabulary(Path(path), names + unused)
    return transformers.MarianTokenizer(*files, separate_vocabs=True)


def write_vocabulary(path: Path, pieces: list[str]) -> None:
    """Write the ids of pieces; id 0 is the end token, and the last id padding."""
    names = ["</s>", "<unk>", *pieces, "<pad>"]
    vocabulary = {name: number for number, name in enumerate(names)}
    path.write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n", "utf-8")


def build_model(size: int, vocabularies: int) -> Any:
    """Return a Marian translator; id 0 is the end token, and the last id padding."""
    sizes = {"d_model": 32, "max_position_embeddings": 40, "activation_function": "swish"}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
    special = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    config = transformers.MarianConfig(
        vocab_size=size,
        scale_embedding=True,
        init_std=0.1,
        share_encoder_decoder_embeddings=vocabularies == 1,
        **sizes,
        **special,
    )
    model = transformers.MarianMTModel(config)
    model.generation_config = transformers.GenerationConfig(
        **special,
        bos_token_id=0,
        bad_words_ids=[[size - 1]],
        forced_eos_token_id=0,
        max_length=24,
        num_beams=4,
        renormalize_logits=True,
    )
    return model


def train(model: Any, tokenizer: Any, sources: list[str], targets: list[str]) -> None:
    """Train for `STEPS` batches, then round the weights to float16."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        batch = tokenizer(
            sources[rows], text_target=targets[rows], padding=True, return_tensors="pt"
        )
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss of the last batch:", round(loss.item(), 3))
    model.eval().half()


def generate(model: Any, tokenizer: Any, sources: list[str], options: dict[str, Any]) -> Any:
    """Return the generated ids without the start token and padding, and the scores."""
    rows, scores = [], []
    for source in sources:  # one at a time, so without padding
        output = model.generate(
            **tokenizer([source], return_tensors="pt"),
            **options,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        ids = output.sequences[0, 1:].tolist()
        rows.append(ids[: ids.index(0) + 1] if 0 in ids else ids)
        if options["num_beams"] > 1:
            scores.append(output.sequences_scores[0].item())
    return rows, scores


def main(name: str, seed: str = "7", vocabularies: str = "1") -> None:
    transformers.logging.set_verbosity_error()
    torch.manual_seed(int(seed))
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    sources, targets = make_texts(random.Random(int(seed)), STEPS * BATCH + COUNT)
    tokenizer = train_tokenizer(folder, sources, targets, int(vocabularies))
    model = build_model(tokenizer.pad_token_id + 1, int(vocabularies))
    train(model, tokenizer, sources, targets)
    model.save_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    texts, cases = sources[-COUNT:], []
    for number, options in enumerate(OPTIONS):
        if "bad_words_ids" in options:
            words = [*options["bad_words_ids"], [tokenizer.pad_token_id]]
            options = {**options, "bad_words_ids": words}
        count = COUNT if number < 2 else FEWER
        rows, scores = generate(model, tokenizer, texts[:count], options)
        decoded = tokenizer.batch_decode(rows, skip_special_tokens=True)
        cases.append({"options": options, "ids": rows, "texts": decoded, "scores": scores})
        print(options, len(set(decoded)), "different texts")
    (folder / "expected.json").write_text(
        json.dumps({"sources": texts, "cases": cases}, ensure_ascii=False) + "\n", "utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
