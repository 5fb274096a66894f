"""Interactive page of a task's model for one input: attention of all layers, and attributions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from attention_zoo import inspection
from attention_zoo.data.tokenizers.vocabulary import END
from attention_zoo.inspection import ImageOverlay, TokenAttribution
from attention_zoo.tasks.attention_maps import make_attention_maps
from attention_zoo.tasks.model_call import ModelCall

MAX_HYPOTHESES = 5


def write_attention_report(
    task: Any,
    source: Any,
    path: str | Path,
    output: str | None = None,
    layers: Sequence[Any] | None = None,
    attribution: str | None = None,
) -> Any:
    """Write the attention of all layers of a task's model for one input as an interactive page.

    Args:
        task: a task for translation, summarization, captioning, tagging, classification or
            matching.
        source: one input of `predict`: a text, a pair of texts, or an image.
        path: output file; an existing file is overwritten.
        output: the text to generate, such as a reference translation; by default that of `predict`.
        layers: as in `inspection.record`; all if None.
        attribution: method of `inspection.attribute`, to add the attribution of the predicted class
            or of the generated text to the tokens of the input; None for none.

    Returns:
        The result of `predict`.

    Raises:
        ValueError: the task cannot be inspected, the input is invalid, the model has no attention,
            or it is a tagger or a captioner and an attribution is requested.

    Example:
        >>> import attention_zoo as az, os, tempfile
        >>> task = az.load("rnnsearch_small.dates_en_fr")
        >>> path = os.path.join(tempfile.mkdtemp(), "attention.html")
        >>> result = az.tasks.write_attention_report(task, "at 5:04 PM I return.", path)
        >>> result.text, os.path.exists(path)
        ('je rentre à 17:04.', True)

    Reference: this library.
    """
    (result,) = task.predict([source])
    text = result.text if output is None else output
    call = task.make_model_call(source, text)
    attributions = []
    if attribution is not None:
        attributions = make_attributions(task, call, attribution)
    hypotheses = [result, *result.alternatives][:MAX_HYPOTHESES]
    inspection.write_attention_page(
        make_attention_maps(task, source, text, layers),
        path,
        title=f"Attention of {task.model.name}",
        text=text,
        attributions=attributions,
        images=_make_overlays(result),
        hypotheses=[(one.text, one.score) for one in hypotheses] if len(hypotheses) > 1 else [],
    )
    return result


def make_attributions(task: Any, call: ModelCall, method: str) -> list[TokenAttribution]:
    """Attribute the prediction of a model to each text of its input.

    The output is the log probability of the predicted class, the only output of a model without
    classes, or the log probability of the generated text, the sum over its tokens.

    Args:
        task: the task.
        call: from `make_model_call`.
        method: see `inspection.attribute`.
    """
    if "target" in call.inputs:
        if "source" not in call.inputs:
            raise ValueError(
                f"attribution needs an input of tokens, got task {task.name} with images. Use"
                " `inspection.attribute_generation`."
            )
        ids = np.pad(call.inputs["target"][:, 1:], ((0, 0), (0, 1)), constant_values=END)
        parts = inspection.attribute_generation(task.model, call.inputs["source"], ids, method)
        scores = np.sum([part.scores[0] for part in parts], axis=0)
        return [TokenAttribution(_describe(method, "source"), call.labels["source"], scores)]
    outputs = ops.convert_to_numpy(task.model(dict(call.inputs), training=False))
    if outputs.ndim != 2:
        raise ValueError(
            f"attribution needs one prediction per input, got task {task.name}. Use"
            " `inspection.attribute` with the target `tag_emission`."
        )
    target: Any = lambda outputs: outputs[:, 0]  # noqa: E731
    if outputs.shape[1] > 1:
        is_multi_label = getattr(task.model, "multi_label", False)
        target = inspection.class_log_probability(int(outputs[0].argmax()), is_multi_label)
    attributions = []
    for name in call.inputs:
        result = inspection.attribute(
            task.model, dict(call.inputs), target, method, input_name=name
        )
        if "pair" in call.labels and result.tokens is not None:  # the scores of both texts at once
            labels = call.labels["pair"]
            scores = result.scores[0][: len(labels)]
            return [TokenAttribution(_describe(method, "both texts"), labels, scores)]
        tokens, scores = _flatten(call, name, result.scores[0])
        attributions.append(TokenAttribution(_describe(method, name), tokens, scores))
    return attributions


def _describe(method: str, name: str) -> str:
    return f"{method.replace('_', ' ')}, {name}"


def _flatten(call: ModelCall, name: str, scores: Any) -> tuple[Sequence[str], Any]:
    """Return labels and scores of all tokens of an input, of a document sentence by sentence."""
    if "pair" in call.labels:  # between special tokens
        labels = call.labels["pair"]
        start = 1 if name == "first" else len(labels) - 1 - len(scores)
        return labels[start : start + len(scores)], scores
    if scores.ndim == 1:
        return call.labels[name], scores
    words = [word for row in call.row_labels for word in row]
    rows = zip(scores, call.row_labels, strict=True)
    return words, np.concatenate([row[: len(labels)] for row, labels in rows])


def _make_overlays(result: Any) -> list[ImageOverlay]:
    """Return the attention of a caption over its image."""
    if not hasattr(result, "image") or result.attention is None:
        return []
    return [ImageOverlay(result.image, result.tokens, result.attention)]
