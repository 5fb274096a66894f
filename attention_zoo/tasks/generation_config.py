"""Search options from the generation config of a public checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from attention_zoo.decoding import SearchOptions
from attention_zoo.json_files import read_strict_json

GENERATION_CONFIG = "generation_config.json"

WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "begin_suppress_tokens": (),
    "constraints": (),
    "diversity_penalty": (0,),
    "dola_layers": (),
    "do_sample": (False,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": (),
    "forced_decoder_ids": (),
    "guidance_scale": (1,),
    "is_assistant": (False,),
    "max_time": (),
    "num_beam_groups": (1,),
    "penalty_alpha": (0,),
    "sequence_bias": (),
    "stop_strings": (),
    "token_healing": (False,),
    "use_mtp": (False,),
    "watermarking_config": (),
}
"""Values without effect of unsupported fields, besides null and an empty list."""

IGNORED = {
    "_commit_hash",
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_ensemble_weight",
    "assistant_lookbehind",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "disable_compile",
    "epsilon_cutoff",
    "eta_cutoff",
    "low_memory",
    "max_cache_len",
    "max_matching_ngram_size",
    "min_p",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "prefill_chunk_size",
    "remove_invalid_values",
    "return_dict_in_generate",
    "speculation_type",
    "target_lookbehind",
    "temperature",
    "top_h",
    "top_k",
    "top_p",
    "transformers_version",
    "typical_p",
    "use_cache",
}
"""Fields without effect on the tokens of greedy search and beam search: options of sampling, of
assistant models and of caches, and output formats."""

TYPES: dict[str, type | tuple[type, ...]] = {
    "bad_words_ids": list,
    "decoder_start_token_id": int,
    "early_stopping": (bool, str),
    "encoder_no_repeat_ngram_size": int,
    "eos_token_id": (int, list),
    "forced_bos_token_id": int,
    "forced_eos_token_id": (int, list),
    "length_penalty": (int, float),
    "max_length": int,
    "max_new_tokens": int,
    "min_length": int,
    "min_new_tokens": int,
    "no_repeat_ngram_size": int,
    "num_beams": int,
    "renormalize_logits": bool,
    "repetition_penalty": (int, float),
    "suppress_tokens": list,
}
"""Types of the supported fields."""


DEFAULTS = {
    "early_stopping": False,
    "encoder_no_repeat_ngram_size": 0,
    "length_penalty": 1.0,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "repetition_penalty": 1.0,
}
"""Defaults of supported fields in `transformers`, where they are not null."""


def add_decoder_fields(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with the generation fields of its `decoder` where its own have defaults."""
    known = TYPES.keys() | WITHOUT_EFFECT.keys()
    unset = {name for name in known if config.get(name) in (None, DEFAULTS.get(name))}
    inner = {name: value for name, value in config["decoder"].items() if name in unset}
    return {**config, **{n: x for n, x in inner.items() if x not in (None, DEFAULTS.get(n))}}


def read_search_options(
    folder: Path,
    config: dict[str, Any],
    to_token_id: Callable[[int], int],
    max_length: int,
    defaults: dict[str, Any] | None = None,
) -> SearchOptions:
    """Return the search options of an encoder-decoder checkpoint.

    Args:
        folder: the checkpoint. Without `generation_config.json`, the fields of `config.json` apply.
        config: contents of `config.json`, with the token ids that must be those of the file.
        to_token_id: converts an id of the checkpoint to the library's.
        max_length: maximum number of tokens if the checkpoint sets none. (The default of
            `transformers` is 20.)
        defaults: fields that apply where the file has none.

    Raises:
        ValueError: the file is damaged, or a field is not supported or has an invalid value.
    """
    path, known = folder / GENERATION_CONFIG, TYPES.keys() | WITHOUT_EFFECT.keys()
    try:
        fields = read_strict_json(path)
    except FileNotFoundError:
        path = folder / "config.json"
        fields = {name: config[name] for name in known & config.keys()}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}; copy it again") from None
    try:
        if not isinstance(fields, dict):
            raise ValueError("expected an object; copy it again")
        fields = {name: value for name, value in fields.items() if value not in (None, [])}
        fields = {**(defaults or {}), **fields}
        _check_fields(fields, config)
        return SearchOptions(
            **_convert_lengths(fields, max_length),
            **_convert_beam_options(fields),
            banned_tokens=_list_banned(fields, config, to_token_id),
            forced_start=_convert_forced_start(fields, config, to_token_id),
            no_repeat_ngram=fields.get("no_repeat_ngram_size", 0),
            no_repeat_source_ngram=fields.get("encoder_no_repeat_ngram_size", 0),
            repetition_penalty=fields.get("repetition_penalty", 1.0),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _check_fields(fields: dict[str, Any], config: dict[str, Any]) -> None:
    """Raise ValueError for an unsupported field, or a supported one with an invalid value."""
    end, start = config["eos_token_id"], config["decoder_start_token_id"]
    for name, value in fields.items():
        if name in WITHOUT_EFFECT and value not in WITHOUT_EFFECT[name]:
            fix = "; remove it"
            if WITHOUT_EFFECT[name]:
                fix = f", only {WITHOUT_EFFECT[name][0]!r}{fix}, or set it to that"
            raise ValueError(f"{name}={value!r} is not supported{fix}")
        if name not in TYPES.keys() | WITHOUT_EFFECT.keys() | IGNORED:
            raise ValueError(f"{name}={value!r} is not supported; remove it")
        if name in TYPES and not _has_type(value, TYPES[name]):
            raise ValueError(f"{name}={value!r} has the wrong type; copy the file again")
    expected = {"eos_token_id": end, "forced_eos_token_id": end, "decoder_start_token_id": start}
    for name, token in expected.items():
        if fields.get(name, token) not in (token, [token]):
            raise ValueError(f"{name} must be {token}, as in config.json, got {fields[name]!r}")
    has_penalty = fields.get("repetition_penalty", 1) != 1
    if start == end and (has_penalty or fields.get("no_repeat_ngram_size") == 1):
        name = "repetition_penalty" if has_penalty else "no_repeat_ngram_size"
        raise ValueError(
            f"{name}={fields[name]!r} is not supported if decoder_start_token_id is eos_token_id:"
            " `transformers` counts the start token as a generated end token; remove it"
        )
    if fields.get("length_penalty", 0) < 0:
        raise ValueError(f"length_penalty must be at least 0, got {fields['length_penalty']!r}")
    if fields.get("num_beams", 1) != 1 and fields.get("repetition_penalty", 1) != 1:
        raise ValueError(
            f"repetition_penalty={fields['repetition_penalty']!r} is not supported with"
            f" num_beams={fields['num_beams']!r}, where it applies to log probabilities; remove it,"
            " or set num_beams to 1"
        )


def _has_type(value: Any, types: type | tuple[type, ...]) -> bool:
    """Return whether a value has one of the types; a bool is no number."""
    types = types if isinstance(types, tuple) else (types,)
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _convert_lengths(fields: dict[str, Any], max_length: int) -> dict[str, Any]:
    """Return the length options.

    Of the start and the end token, `max_length` and `min_length` of `transformers` count the start
    token (`min_length` is that of an output without its end token), `max_new_tokens` counts the end
    token and `min_new_tokens` none. The library's lengths count the end token. The limits of new
    tokens win.
    """
    longest = fields["max_length"] - 1 if "max_length" in fields else max_length
    longest = fields.get("max_new_tokens", longest)
    shortest = fields.get("min_length", 0)
    if "min_new_tokens" in fields:
        shortest = fields["min_new_tokens"] + 1
    return {
        "max_length": longest,
        "min_length": shortest,
        "force_end": "forced_eos_token_id" in fields,
    }


def _convert_beam_options(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the options of beam search."""
    weight = fields.get("length_penalty", 1.0)
    penalty = {"length_penalty": "average", "length_penalty_weight": weight} if weight else {}
    return {
        **penalty,
        "beam_width": fields.get("num_beams", 1),
        "renormalize": fields.get("renormalize_logits", False),
        "early_stopping": fields.get("early_stopping", False),
        "fill_beam": True,
    }


def _convert_forced_start(
    fields: dict[str, Any], config: dict[str, Any], to_token_id: Callable[[int], int]
) -> int | None:
    """Return the token that is forced as the first one, None for none."""
    token = fields.get("forced_bos_token_id")
    if token is None:
        return None
    if not 0 <= token < config["vocab_size"]:
        raise ValueError(f"forced_bos_token_id={token} is not in the vocabulary; remove it")
    return to_token_id(token)


def _list_banned(
    fields: dict[str, Any], config: dict[str, Any], to_token_id: Callable[[int], int]
) -> tuple[int, ...]:
    """Return the banned tokens; the end token in `bad_words_ids` is ignored, as in `transformers`.

    Raises:
        ValueError: a bad word has several tokens, or an id is not in the vocabulary.
    """
    words = fields.get("bad_words_ids", [])
    for word in words:
        if not isinstance(word, list) or len(word) != 1:
            raise ValueError(
                f"bad_words_ids={words!r} is not supported, only words of one token: [[id], ...]"
            )
    banned = {"bad_words_ids": [word[0] for word in words if word[0] != config["eos_token_id"]]}
    banned["suppress_tokens"] = fields.get("suppress_tokens", [])
    for name, ids in banned.items():
        for token in ids:
            if type(token) is not int or not 0 <= token < config["vocab_size"]:
                raise ValueError(
                    f"{name} has id {token!r}, which is not in the vocabulary; remove it"
                )
    return tuple(sorted(to_token_id(token) for token in {*chain.from_iterable(banned.values())}))
