"""Load Marian checkpoints as translation tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo.data.tokenizers.sentencepiece_tokenizer import load_sentencepiece_tokenizer
from attention_zoo.models import Transformer
from attention_zoo.tasks.generation_config import read_search_options
from attention_zoo.tasks.translation.task import Translation

DEFAULT_POSITIONS = 1024
"""Default of `max_position_embeddings`."""


def load_public_translation(
    folder: Path, config: dict[str, Any], model: Transformer
) -> Translation:
    """Load a Marian checkpoint as a task, with its tokenizers and search options.

    Args:
        folder: the checkpoint.
        config: contents of its `config.json`.
        model: the model with its weights.

    Raises:
        ValueError: a file is missing or damaged, the vocabulary has another size than the model, or
            a field of the generation config is not supported.
    """
    source = load_sentencepiece_tokenizer(folder, "source")
    target = load_sentencepiece_tokenizer(folder, "target")
    sizes = source.vocabulary_size, target.vocabulary_size
    expected = model.source_vocabulary_size, model.target_vocabulary_size
    if sizes != expected:
        raise ValueError(
            f"{folder}: the source and target vocabularies have {sizes[0] - 1} and {sizes[1] - 1}"
            f" pieces, but config.json requires {expected[0] - 1} and {expected[1] - 1}"
            " (vocab_size, decoder_vocab_size); copy the files again"
        )
    positions = config.get("max_position_embeddings", DEFAULT_POSITIONS)
    if type(positions) is not int:
        raise ValueError(
            f"{folder / 'config.json'}: max_position_embeddings must be an integer, got"
            f" {positions!r}"
        )
    search = read_search_options(folder, config, target.from_checkpoint_id, positions)
    return Translation(
        model,
        source,
        target,
        search,
        max_source_length=positions,
        max_target_length=positions,
        add_source_end=True,
        split_long_texts=True,
    )
