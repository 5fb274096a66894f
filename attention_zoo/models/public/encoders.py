"""Loader of public BERT, DistilBERT and RoBERTa checkpoints, with or without a head.

The mappings use the tensor names of BERT. A `Family` defines its replacements, its settings and the
offset of its token ids; see `data.tokenizers.public_tokenizers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.models.classification.transformer_classifier import TransformerClassifier
from attention_zoo.models.language.bert import BERT
from attention_zoo.models.language.masked_lm import MaskedLM
from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.initialization import skip_initialization
from attention_zoo.models.public.loading import Checkpoint
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    get_tensor,
    map_dense,
    map_kernel,
    map_norm,
    map_table,
    map_table_without,
    map_vector,
)
from attention_zoo.models.tagging.transformer_tagger import TransformerTagger
from attention_zoo.models.transformer_options import LEARNED

TOKEN_EMBEDDINGS = "embeddings.word_embeddings.weight"
POSITION_EMBEDDINGS = "embeddings.position_embeddings.weight"
POOLER = "pooler.dense"
LM_DENSE, LM_BIAS = "cls.predictions.transform.dense", "cls.predictions.bias"
HIDDEN_DENSE, TAG_CLASSIFIER = "hidden_layer", "classifier"
PROBLEM_TYPES = {
    None: False,
    "single_label_classification": False,
    "multi_label_classification": True,
}
"""Whether a text has any number of classes, by the config's `problem_type`."""
PADDING_LOGIT = -1e4
"""Logit of the padding token; its probability is 0 in every precision."""


class Family(NamedTuple):
    """A family of encoders.

    Attributes:
        prefix: prefix of the encoder's tensors in a model with a head.
        replacements: pairs of a part of BERT's tensor names and its replacement, applied in order.
        read_settings: returns the arguments of `BERT` that a config defines.
        classifier_dropout: name of the config's dropout rate of a text classifier.
        classifier: tensor name of the output layer of a text classifier.
        hidden_activation: activation of the layer before that layer; None if the family has a
            pooler instead.
        shift: offset added to the checkpoint's token ids; the first added id is padding.
        num_reserved_positions: number of leading rows of the position embeddings that no token
            uses.
        ignored: regular expressions of tensors, without the prefix, that no model uses.
    """

    prefix: str
    replacements: Sequence[tuple[str, str]]
    read_settings: Callable[[Checkpoint], Config]
    classifier_dropout: str
    classifier: str = "classifier"
    hidden_activation: str | None = None
    shift: int = 0
    num_reserved_positions: int = 0
    ignored: Sequence[str] = ()

    def rename(self, name: str) -> str:
        """Return the family's name of a tensor of BERT."""
        for part, replacement in self.replacements:
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
            f"{checkpoint.folder}: the checkpoint cannot be loaded as {model_class.__name__}; use"
            f" one of {known}"
        )
    settings = family.read_settings(checkpoint)
    is_pooled = model_class is TransformerClassifier and family.hidden_activation is None
    settings["use_pooler"] = f"{POOLER}.weight" in tensors and (model_class is BERT or is_pooled)
    if model_class is BERT:
        with skip_initialization():
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
    if not architecture and f"{family.classifier}.weight" in tensors:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: architectures is missing, so the kind of the"
            " classifier is unknown; add it, or pass the class to models.from_public"
        )
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
    yield _map_shifted_table(TOKEN_EMBEDDINGS, bert.token_embedding.embeddings, family.shift)
    yield map_table_without(
        POSITION_EMBEDDINGS, bert.positions.table, family.num_reserved_positions
    )
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


def _map_shifted_table(name: str, weight: Any, shift: int, fill: float = 0.0) -> WeightMapping:
    """Map a tensor with one row for each token id; the first `shift` rows here have one value."""
    shape = tuple(weight.shape)

    def prepend(rows: Array) -> list[Array]:
        return [np.concatenate([np.full((shift, *shape[1:]), fill, rows.dtype), rows])]

    return WeightMapping(name, (shape[0] - shift, *shape[1:]), [weight], prepend)


def _build_masked_lm(
    family: Family, checkpoint: Checkpoint, tensors: Tensors, settings: Config, own: Config
) -> tuple[MaskedLM, list[WeightMapping]]:
    """Return a masked language model and the mappings of its head."""
    checkpoint.check_setting("tie_word_embeddings", expected=True)
    with skip_initialization():
        model = MaskedLM(settings, **own)
    return model, [
        *map_dense(LM_DENSE, model.dense),
        *map_norm("cls.predictions.transform.LayerNorm", model.norm),
        _map_shifted_table(LM_BIAS, model.bias, family.shift, PADDING_LOGIT),
    ]


def _build_classifier(
    family: Family, checkpoint: Checkpoint, tensors: Tensors, settings: Config, own: Config
) -> tuple[TransformerClassifier, list[WeightMapping]]:
    """Return a classifier and the mappings of its head."""
    classes = _read_labels(checkpoint, tensors, family.classifier)
    multi_label = checkpoint.get_choice("problem_type", PROBLEM_TYPES)
    if len(classes) == 1 and not multi_label:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: a classifier with one output and without a"
            " problem_type is a regression, which is not supported"
        )
    head = {
        "classes": classes,
        "multi_label": multi_label,
        "dropout": _read_dropout(checkpoint, family.classifier_dropout, settings["dropout"]),
        "hidden_activation": family.hidden_activation,
    }
    with skip_initialization():
        model = TransformerClassifier(settings, **{**head, **own})
    dense = [] if model.dense is None else map_dense(HIDDEN_DENSE, model.dense)
    return model, [*dense, *map_dense(family.classifier, model.head)]


def _build_tagger(
    family: Family, checkpoint: Checkpoint, tensors: Tensors, settings: Config, own: Config
) -> tuple[TransformerTagger, list[WeightMapping]]:
    """Return a tagger and the mappings of its head."""
    head = {
        "tags": _read_labels(checkpoint, tensors, TAG_CLASSIFIER),
        "dropout": _read_dropout(checkpoint, "classifier_dropout", settings["dropout"]),
        "class_token": True,
        "window": settings["max_length"],
    }
    with skip_initialization():
        model = TransformerTagger(settings, **{**head, **own})
    return model, map_dense(TAG_CLASSIFIER, model.head.emit)


def _read_dropout(checkpoint: Checkpoint, name: str, default: float) -> float:
    """Return a dropout rate of the config; `default` if it is absent or null."""
    rate = checkpoint.config.get(name)
    return default if rate is None else rate


def _read_labels(checkpoint: Checkpoint, tensors: Tensors, classifier: str) -> list[str]:
    """Return the names of a classifier's outputs, "LABEL_0" and so on if the config has none.

    Args:
        checkpoint: the checkpoint.
        tensors: its tensors.
        classifier: name of the output layer.

    Raises:
        ValueError: the classifier is missing, or the number of names differs from its outputs.
    """
    size = len(get_tensor(tensors, f"{classifier}.bias", checkpoint.folder))
    labels = checkpoint.config.get("id2label")
    if labels is None:
        return [f"LABEL_{number}" for number in range(size)]
    is_mapping = isinstance(labels, Mapping)
    names = [labels.get(str(number)) for number in range(size)] if is_mapping else []
    if len(labels) != size or len(names) != size or None in names:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: id2label must name the {size} outputs 0 to"
            f" {size - 1}, got {labels}; correct id2label"
        )
    return names


HEADS: dict[type, Callable[..., Any]] = {
    MaskedLM: _build_masked_lm,
    TransformerClassifier: _build_classifier,
    TransformerTagger: _build_tagger,
}
"""Functions that build a model with a head and return the mappings of the head, by model class."""
