"""Search options from the generation config of a public checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attention_zoo.decoding import SearchOptions

GENERATION_CONFIG = "generation_config.json"

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "begin_suppress_tokens": (),
    "constraints": (),
    "diversity_penalty": (0,),
    "dola_layers": (),
    "do_sample": (False,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": (),
    "forced_bos_token_id": (),
    "forced_decoder_ids": (),
    "guidance_scale": (1,),
    "max_time": (),
    "num_beam_groups": (1,),
    "penalty_alpha": (0,),
    "sequence_bias": (),
    "stop_strings": (),
    "token_healing": (False,),
    "watermarking_config": (),
}
"""Values, beside null and an empty list, of fields that are not supported."""

IGNORED = {
    "_from_model_config",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "decoder_start_token_id",  # checked with the weights
    "disable_compile",
    "epsilon_cutoff",  # with this one, those that have an effect on sampling only
    "eta_cutoff",
    "low_memory",
    "max_cache_len",
    "min_p",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "prefill_chunk_size",
    "remove_invalid_values",
    "return_dict_in_generate",
    "temperature",
    "top_h",
    "top_k",
    "top_p",
    "transformers_version",
    "typical_p",
    "use_cache",
}
"""Fields without an effect on the tokens of greedy search and beam search."""

SUPPORTED = {
    "bad_words_ids",
    "early_stopping",
    "eos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beams",
    "renormalize_logits",
    "repetition_penalty",
    "suppress_tokens",
}


def read_search_options(
    folder: Path, config: dict[str, Any], to_token_id: Callable[[int], int], max_length: int
) -> SearchOptions:
    """Return the search options of an encoder-decoder checkpoint.

    Args:
        folder: the checkpoint. Without `generation_config.json`, the fields of `config.json` apply.
        config: contents of `config.json`.
        to_token_id: converts an id of the checkpoint to the library's; KeyError for an unknown one.
        max_length: maximum number of tokens if the checkpoint sets none. (`transformers` then
            generates 20.)

    Raises:
        ValueError: the file is damaged, or a field is not supported or has an invalid value.
    """
    path, known = folder / GENERATION_CONFIG, SUPPORTED | NEUTRAL.keys()
    try:
        fields = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        path = folder / "config.json"
        fields = {name: config[name] for name in known & config.keys()}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}; copy it again") from None
    try:
        if not isinstance(fields, dict):
            raise ValueError("expected an object; copy it again")
        fields = {name: value for name, value in fields.items() if value not in (None, [])}
        _check_fields(fields, config["eos_token_id"])
        return SearchOptions(
            **_convert_lengths(fields, max_length),
            **_convert_scores(fields),
            banned_tokens=tuple(sorted(set(_list_banned(fields, to_token_id)))),
            no_repeat_ngram=fields.get("no_repeat_ngram_size", 0),
            repetition_penalty=fields.get("repetition_penalty", 1.0),
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _check_fields(fields: dict[str, Any], end: int) -> None:
    """Raise ValueError for a field with an effect that is not supported."""
    for name, value in fields.items():
        allowed = NEUTRAL.get(name, () if name not in SUPPORTED | IGNORED else (value,))
        if value not in allowed:
            only = f", only {allowed[0]!r}" if allowed else "; remove it, and set search options"
            raise ValueError(f"{name}={value!r} is not supported{only}")
    for name in ("eos_token_id", "forced_eos_token_id"):
        if fields.get(name, end) not in (end, [end]):
            raise ValueError(
                f"{name}={fields[name]!r} is not supported, only {end}, that of config.json"
            )
    if fields.get("num_beams", 1) != 1 and fields.get("repetition_penalty", 1) != 1:
        raise ValueError(
            f"repetition_penalty={fields['repetition_penalty']!r} is not supported with"
            f" num_beams={fields['num_beams']!r}, where it applies to log probabilities"
        )


def _convert_lengths(fields: dict[str, Any], max_length: int) -> dict[str, Any]:
    """Return the options of lengths, which include the end token but no start token."""
    longest = fields["max_length"] - 1 if "max_length" in fields else max_length
    longest = fields.get("max_new_tokens", longest)
    shortest = fields["min_new_tokens"] + 1 if "min_new_tokens" in fields else 0
    return {
        "max_length": longest,
        "min_length": max(fields.get("min_length", 0), shortest),
        "force_end": "forced_eos_token_id" in fields,
    }


def _convert_scores(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the options of beams and their scores."""
    weight = fields.get("length_penalty", 1.0)
    penalty = {"length_penalty": "average", "length_penalty_weight": weight} if weight else {}
    return {
        **penalty,
        "beam_width": fields.get("num_beams", 1),
        "renormalize": fields.get("renormalize_logits", False),
        "early_stopping": fields.get("early_stopping", False),
        "fill_beam": True,
    }


def _list_banned(fields: dict[str, Any], to_token_id: Callable[[int], int]) -> Iterator[int]:
    """Yield the tokens that are never generated; the end token may not be a bad word."""
    words = fields.get("bad_words_ids", [])
    for word in words:
        if not isinstance(word, list) or len(word) != 1:
            raise ValueError(
                f"bad_words_ids={words!r} is not supported, only words of one token: [[id], ...]"
            )
    ids = [word[0] for word in words if word[0] != fields.get("eos_token_id")]
    for token in [*ids, *fields.get("suppress_tokens", [])]:
        try:
            yield to_token_id(token)
        except (KeyError, TypeError):
            raise ValueError(f"the vocabulary has no id {token!r}, which is banned") from None
