"""Models. Each module defines one architecture, followed by its presets.

Models are found by their decorator: a new one needs no import here.
"""

from typing import TYPE_CHECKING

from attention_zoo.models.encoder_decoder import EncoderDecoder
from attention_zoo.models.presets import (
    MODELS,
    from_preset,
    list_presets,
    preset_class,
    preset_config,
)
from attention_zoo.models.public import from_public
from attention_zoo.models.summarization.copying import CopyingMixin, Trace
from attention_zoo.models.tagging.tagger import Tagger
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
    "CopyingMixin",
    "EncodedTexts",
    "EncoderDecoder",
    "GlimpsePath",
    "Tagger",
    "Trace",
    "from_preset",
    "from_public",
    "list_presets",
    "preset_class",
    "preset_config",
    *MODELS.exports(),
]
