"""Models. Each module defines one architecture, followed by its presets.

Models are found by their decorator: a new one needs no import here.
"""

from typing import TYPE_CHECKING

from attention_zoo.models.classification.classifier import Classifier
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder
from attention_zoo.models.generation import DecoderStart, GenerationMixin
from attention_zoo.models.matching.matcher import Matcher
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import (
    MODELS,
    add_presets,
    collect_arguments,
    from_preset,
    list_presets,
    preset_class,
    preset_config,
    register_model,
)
from attention_zoo.models.public import from_public
from attention_zoo.models.summarization.copying import CopyingMixin, DecoderOutput, Trace
from attention_zoo.models.tagging.tagger import Tagger
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.models.vision.captioner import Captioner
from attention_zoo.models.vision.cross_attention_retriever import EncodedTexts
from attention_zoo.models.vision.recurrent_attention import GlimpsePath
from attention_zoo.registry import import_modules

import_modules(__name__)
globals().update(MODELS.exports())

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    __getattr__: Callable[[str], Any]  # the registered classes

__all__ = [
    "MODELS",
    "Captioner",
    "Classifier",
    "CopyingMixin",
    "DecoderOutput",
    "DecoderStart",
    "Encoded",
    "EncodedTexts",
    "EncoderDecoder",
    "GenerationMixin",
    "GlimpsePath",
    "Matcher",
    "PrebuiltModel",
    "Tagger",
    "Trace",
    "WordFeatures",
    "add_presets",
    "collect_arguments",
    "from_preset",
    "from_public",
    "list_presets",
    "preset_class",
    "preset_config",
    "register_model",
    *MODELS.exports(),
]
