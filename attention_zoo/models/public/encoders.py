"""Loader of released BERTs and their kin: an encoder with or without a head.

The mappings use the tensor names of BERT. A family gives its own names, its settings, and the
number of ids by which its token ids are shifted; see `data.tokenizers.public_tokenizers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.models.classification.transformer_classifier import TransformerClassifier
from attention_zoo.models.language.bert import BERT
from attention_zoo.models.language.masked_lm import MaskedLM
from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.loading import Checkpoint
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    map_dense,
    map_kernel,
    map_norm,
    map_table,
    map_vector,
)
from attention_zoo.models.tagging.transformer_tagger import TransformerTagger
from attention_zoo.models.transformer_options import LEARNED

WORDS, POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
POOLER = "pooler.dense"
LM_DENSE, LM_BIAS = "cls.predictions.transform.dense", "cls.predictions.bias"
HIDDEN, TAG_CLASSIFIER = "hidden_layer", "classifier"
NEVER = -1e4
"""Logit of padding, whose probability is exactly 0 in every precision."""


class Family(NamedTuple):
    """A family of encoders.

    prefix: prefix of the encoder's tensors in a model with a head.
    names: pairs of a part of BERT's tensor names and what replaces it, in order.
    read_settings: returns the arguments of `BERT` that a config defines.
    classifier_dropout: names of the config's dropout rates of a classifier, in order of preference.
    text_classifier: name of the output layer of a classifier of texts.
    hidden_activation: activation of the layer between a text's vector and its logits; None if the
        family has a pooler instead.
    shift: number of ids that precede those of the checkpoint; the first is padding.
    num_reserved_positions: number of positions of the checkpoint that no token has.
    ignored: regular expressions of tensors, without the prefix, that no model uses.
    """

    prefix: str
    names: Sequence[tuple[str, str]]
    read_settings: Callable[[Checkpoint], Config]
    classifier_dropout: Sequence[str]
    text_classifier: str = "classifier"
    hidden_activation: str | None = None
    shift: int = 0
    num_reserved_positions: int = 0
    ignored: Sequence[str] = ()

    def rename(self, name: str) -> str:
        """Return the family's name of a tensor of BERT."""
        for part, replacement in self.names:
            name = name.replace(part, replacement)
        return name


def build_encoder(
    family: Family, checkpoint: Checkpoint, cls: type | None, overrides: Config
) -> Any:
    """Build `cls`, by default the class with the checkpoint's head, and assign its weights.

    Args:
        family: the family of the checkpoint.
        checkpoint: the checkpoint.
        cls: `BERT` or a class in `HEADS`; None for the one that has the head.
        overrides: arguments of `cls`; those that it does not have are the BERT's.

    Raises:
        ValueError: another class, an unsupported setting, or tensors that do not fit.
    """
    tensors = checkpoint.tensors.renamed(lambda name: _normalize_name(name, family))
    model_class: Any = cls or _choose_class(family, checkpoint, tensors)
    if model_class not in HEADS and model_class is not BERT:
        known = ", ".join(known.__name__ for known in (BERT, *HEADS))
        raise ValueError(
            f"{checkpoint.folder}: cannot be loaded as {model_class.__name__} (known: {known})"
        )
    settings = family.read_settings(checkpoint)
    settings["use_pooler"] = f"{POOLER}.weight" in tensors and model_class is not MaskedLM
    if model_class is BERT:
        model = bert = BERT(**merge(BERT, settings, overrides))
        mappings: list[WeightMapping] = []
    else:
        # As in `from_preset` of these classes.
        own = {key: overrides[key] for key in model_class.own_arguments if key in overrides}
        options = {key: x for key, x in overrides.items() if key not in (*own, "bert")}
        settings = merge(BERT, settings, {**options, **overrides.get("bert", {})})
        model, mappings = HEADS[model_class](family, checkpoint, tensors, settings, own)
        bert = model.bert
    checkpoint.check_positions(bert.settings["layer"].get("positions", LEARNED))
    mappings = [*map_bert(bert, family), *mappings]
    mappings = [mapping._replace(name=family.rename(mapping.name)) for mapping in mappings]
    assign_weights(mappings, tensors, checkpoint.folder, _list_ignored(family, model_class, bert))
    return model


def _normalize_name(name: str, family: Family) -> str:
    """Strip the family's prefix of a tensor's name and use the newer names of a norm's vectors."""
    name = name.removeprefix(f"{family.prefix}.")
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        name = name.replace(f"LayerNorm.{old}", f"LayerNorm.{new}")
    return name


def _choose_class(family: Family, checkpoint: Checkpoint, tensors: Tensors) -> type:
    """Return the class whose head the checkpoint has.

    Classifiers of texts and of tokens can have the same tensors, so their architecture decides.
    """
    (architecture, *_) = checkpoint.config.get("architectures") or [""]
    if str(architecture).endswith("ForSequenceClassification"):
        return TransformerClassifier
    if str(architecture).endswith("ForTokenClassification"):
        return TransformerTagger
    if family.rename(f"{LM_DENSE}.weight") in tensors:
        return MaskedLM
    return BERT


def _list_ignored(family: Family, cls: type, bert: BERT) -> list[str]:
    """Return regular expressions of the tensors that a model does not use."""
    ignored = [r"embeddings\.position_ids", *family.ignored]
    if bert.pooler is None:
        ignored.append(r"pooler\..*")
    if cls is BERT:  # any head
        ignored += [r"(cls|lm_head|classifier|pre_classifier|qa_outputs|vocab_\w+)\..*"]
    return ignored


def map_bert(bert: BERT, family: Family) -> Iterator[WeightMapping]:
    """Yield the mappings of an encoder's tensors."""
    yield _map_rows(WORDS, bert.token_embedding.embeddings, family.shift)
    yield _skip_rows(POSITIONS, bert.positions.table, family.num_reserved_positions)
    if bert.segment_embedding is not None:
        embeddings = bert.segment_embedding.embeddings
        yield map_table("embeddings.token_type_embeddings.weight", embeddings)
    yield from map_norm("embeddings.LayerNorm", bert.norm)
    for number, layer in enumerate(bert.encoder):
        layer_prefix, heads = f"encoder.layer.{number}", layer.attention
        for name in ("query", "key", "value"):
            prefix = f"{layer_prefix}.attention.self.{name}"
            yield map_kernel(f"{prefix}.weight", getattr(heads, f"{name}_projection"))
            yield map_vector(f"{prefix}.bias", getattr(heads, f"{name}_bias"))
        out = f"{layer_prefix}.attention.output"
        yield map_kernel(f"{out}.dense.weight", heads.output_projection, inputs=2)
        yield map_vector(f"{out}.dense.bias", heads.output_bias)
        yield from map_norm(f"{out}.LayerNorm", layer.attention_residual.norm)
        yield from map_dense(f"{layer_prefix}.intermediate.dense", layer.feed_forward.first)
        yield from map_dense(f"{layer_prefix}.output.dense", layer.feed_forward.second)
        yield from map_norm(f"{layer_prefix}.output.LayerNorm", layer.feed_forward_residual.norm)
    if bert.pooler is not None:
        yield from map_dense(POOLER, bert.pooler)


def _map_rows(name: str, weight: Any, shift: int, fill: float = 0.0) -> WeightMapping:
    """Map a tensor with one row for each token id; the first `shift` rows here have one value."""
    shape = tuple(weight.shape)

    def prepend(rows: Array) -> list[Array]:
        return [np.concatenate([np.full((shift, *shape[1:]), fill, rows.dtype), rows])]

    return WeightMapping(name, (shape[0] - shift, *shape[1:]), [weight], prepend)


def _skip_rows(name: str, weight: Any, count: int) -> WeightMapping:
    """Map a tensor without its first `count` rows."""
    rows, *others = weight.shape
    return WeightMapping(name, (rows + count, *others), [weight], lambda x: [x[count:]])


def _build_masked_lm(
    family: Family, checkpoint: Checkpoint, tensors: Tensors, settings: Config, own: Config
) -> tuple[MaskedLM, list[WeightMapping]]:
    """Return a masked language model and the mappings of its head."""
    checkpoint.check_setting("tie_word_embeddings", expected=True)
    model = MaskedLM(settings, **own)
    return model, [
        *map_dense(LM_DENSE, model.dense),
        *map_norm("cls.predictions.transform.LayerNorm", model.norm),
        _map_rows(LM_BIAS, model.bias, family.shift, NEVER),
    ]


def _build_classifier(
    family: Family, checkpoint: Checkpoint, tensors: Tensors, settings: Config, own: Config
) -> tuple[TransformerClassifier, list[WeightMapping]]:
    """Return a classifier and the mappings of its head."""
    rates = [checkpoint.config.get(name) for name in family.classifier_dropout]
    head = {
        "classes": _read_labels(checkpoint, tensors, family.text_classifier),
        "multi_label": _is_multi_label(checkpoint),
        "dropout": next((rate for rate in rates if rate is not None), settings["dropout"]),
        "hidden_activation": family.hidden_activation,
    }
    model = TransformerClassifier(settings, **{**head, **own})
    dense = [] if model.dense is None else map_dense(HIDDEN, model.dense)
    return model, [*dense, *map_dense(family.text_classifier, model.head)]


def _build_tagger(
    family: Family, checkpoint: Checkpoint, tensors: Tensors, settings: Config, own: Config
) -> tuple[TransformerTagger, list[WeightMapping]]:
    """Return a tagger and the mappings of its head."""
    rate = checkpoint.config.get("classifier_dropout")
    head = {
        "tags": _read_labels(checkpoint, tensors, TAG_CLASSIFIER),
        "dropout": settings["dropout"] if rate is None else rate,
        "class_token": True,
    }
    model = TransformerTagger(settings, **{**head, **own})
    return model, map_dense(TAG_CLASSIFIER, model.head.emit)


def _is_multi_label(checkpoint: Checkpoint) -> bool:
    """Return whether a text has any number of classes; ValueError for regression."""
    kinds = {None: False, "single_label_classification": False, "multi_label_classification": True}
    kind = checkpoint.config.get("problem_type")
    if kind not in kinds:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: problem_type={kind!r} is not supported (known:"
            f" {', '.join(name for name in kinds if name)})"
        )
    return kinds[kind]


def _read_labels(checkpoint: Checkpoint, tensors: Tensors, classifier: str) -> list[str]:
    """Return the names of a classifier's outputs, "LABEL_0" and so on if the config has none.

    Args:
        checkpoint: the checkpoint.
        tensors: its tensors.
        classifier: name of the output layer.

    Raises:
        ValueError: the classifier is missing, or the number of names differs from its outputs.
    """
    bias = f"{classifier}.bias"
    if bias not in tensors:
        raise ValueError(f"{checkpoint.folder}: tensor {bias} is missing")
    size = len(tensors[bias])
    labels = checkpoint.config.get("id2label")
    if labels is None:
        return [f"LABEL_{number}" for number in range(size)]
    names = [labels.get(str(number)) for number in range(size)]
    if len(labels) != size or None in names:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: id2label must name the classes 0 to {size - 1},"
            f" got {', '.join(labels)}"
        )
    return names


HEADS: dict[type, Callable[..., Any]] = {
    MaskedLM: _build_masked_lm,
    TransformerClassifier: _build_classifier,
    TransformerTagger: _build_tagger,
}
"""Functions that build a model with a head, and list the mappings of the head, by its class."""
