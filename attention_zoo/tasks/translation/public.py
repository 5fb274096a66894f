"""Translation with public checkpoints of Marian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo.data.tokenizers.sentencepiece_tokenizer import load_sentencepiece_tokenizer
from attention_zoo.models import Transformer
from attention_zoo.tasks.generation_config import read_search_options
from attention_zoo.tasks.translation.task import Translation


def load_public_translation(
    folder: Path, config: dict[str, Any], model: Transformer
) -> Translation:
    """Return the task of a Marian checkpoint, with the tokenizers and search options of its files.

    Args:
        folder: the checkpoint.
        config: contents of its `config.json`.
        model: the model with its weights.

    Raises:
        ValueError: a file is missing or damaged, the vocabulary has another size than the model, or
            a generation option is not supported.
    """
    source = load_sentencepiece_tokenizer(folder, "source")
    target = load_sentencepiece_tokenizer(folder, "target")
    sizes = source.vocabulary_size, target.vocabulary_size
    expected = model.source_vocabulary_size, model.target_vocabulary_size
    if sizes != expected:
        raise ValueError(
            f"{folder}: the vocabularies have {sizes[0] - 1} and {sizes[1] - 1} pieces, but"
            f" vocab_size in config.json is {expected[0] - 1}; copy the files again"
        )
    positions = config["max_position_embeddings"]
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
