"""Load captioners with a ViT encoder and a GPT-2 decoder as captioning tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.data.tokenizers.public_tokenizers import ByteTokenizer
from attention_zoo.models.public.loading import Checkpoint
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.models.public.vision import get_start_and_end
from attention_zoo.tasks.captioning.task import Captioning
from attention_zoo.tasks.generation_config import (
    GENERATION_CONFIG,
    add_decoder_fields,
    read_search_options,
)

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
    if tokenizer.kind != ByteTokenizer.kind:
        raise ValueError(
            f"{folder}: a captioner requires the tokenizer of a GPT-2, got a"
            f" {type(tokenizer).__name__}; such checkpoints are not supported"
        )
    checkpoint = Checkpoint(folder, config, Tensors(folder))
    start, end = get_start_and_end(checkpoint)
    fields = {"vocab_size": config["decoder"]["vocab_size"], "eos_token_id": end}
    config = add_decoder_fields(config) | fields | {"decoder_start_token_id": start}
    num_positions = model.max_target_length
    search = read_search_options(
        folder, config, tokenizer.from_checkpoint_id, min(num_positions, MAX_LENGTH)
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
        max_target_length=num_positions,
    )
