"""Load captioners of a ViT and a GPT-2 as captioning tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.data.tokenizers.public_tokenizers import ByteTokenizer
from attention_zoo.models.public.vision import read_token_ids
from attention_zoo.tasks.captioning.task import Captioning
from attention_zoo.tasks.generation_config import GENERATION_CONFIG, read_search_options

MAX_LENGTH = 64
"""Maximum number of tokens of a caption if the checkpoint sets none."""


def load_public_captioning(folder: Path, config: dict[str, Any]) -> Captioning:
    """Load a captioner as a task, with its tokenizer, image size and search options.

    Args:
        folder: the checkpoint.
        config: contents of its `config.json`.

    Raises:
        ValueError: a file is missing or damaged, or a field is not supported.
    """
    model = models.from_public(folder, models.CaptionTransformer)
    tokenizer: Any = load_tokenizer(folder)
    is_gpt2 = isinstance(tokenizer, ByteTokenizer)
    if not is_gpt2:
        raise ValueError(
            f"{folder}: a captioner requires the tokenizer of a GPT-2, got a"
            f" {type(tokenizer).__name__}; such checkpoints are not supported"
        )
    start, end = read_token_ids(folder, config)
    fields = {"vocab_size": config["decoder"]["vocab_size"], "eos_token_id": end}
    config = {**config, **fields, "decoder_start_token_id": start}
    longest = model.max_target_length
    search = read_search_options(
        folder, config, tokenizer.from_checkpoint_id, min(longest, MAX_LENGTH)
    )
    if search.no_repeat_source_ngram:
        raise ValueError(
            f"{folder / GENERATION_CONFIG}: encoder_no_repeat_ngram_size is not supported, because"
            " an image has no tokens; remove it"
        )
    return Captioning(
        model,
        tokenizer,
        search,
        image_size=model.encoder.image_size,
        max_target_length=longest,
    )
