"""Models. Each module defines one architecture, followed by its presets."""

from attention_zoo.models.encoder_decoder import EncoderDecoder
from attention_zoo.models.ensemble import Ensemble
from attention_zoo.models.language.bert import BERT
from attention_zoo.models.language.gpt import GPT
from attention_zoo.models.language.masked_lm import MaskedLM
from attention_zoo.models.presets import (
    MODELS,
    from_preset,
    list_presets,
    preset_class,
    preset_config,
)
from attention_zoo.models.public import from_public
from attention_zoo.models.summarization.attention_summarizer import AttentionSummarizer
from attention_zoo.models.summarization.copy_transformer import CopyTransformer
from attention_zoo.models.summarization.copying import CopyingMixin, Trace
from attention_zoo.models.summarization.pointer_generator import PointerGenerator
from attention_zoo.models.tagging.deep_att_tagger import DeepAttTagger
from attention_zoo.models.tagging.recurrent_tagger import RecurrentTagger
from attention_zoo.models.tagging.tagger import Tagger
from attention_zoo.models.tagging.transformer_tagger import TransformerTagger
from attention_zoo.models.translation.luong import LuongTranslator
from attention_zoo.models.translation.rnnsearch import RNNSearch
from attention_zoo.models.translation.seq2seq import Seq2Seq
from attention_zoo.models.translation.transformer import Transformer
from attention_zoo.models.vision.caption_transformer import CaptionTransformer
from attention_zoo.models.vision.captioner import Captioner
from attention_zoo.models.vision.cross_attention_retriever import (
    CrossAttentionRetriever,
    EncodedTexts,
)
from attention_zoo.models.vision.recurrent_attention import GlimpsePath, RecurrentAttentionModel
from attention_zoo.models.vision.show_attend_tell import ShowAttendTell

__all__ = [
    "BERT",
    "GPT",
    "MODELS",
    "AttentionSummarizer",
    "CaptionTransformer",
    "Captioner",
    "CopyTransformer",
    "CopyingMixin",
    "CrossAttentionRetriever",
    "DeepAttTagger",
    "EncodedTexts",
    "EncoderDecoder",
    "Ensemble",
    "GlimpsePath",
    "LuongTranslator",
    "MaskedLM",
    "PointerGenerator",
    "RNNSearch",
    "RecurrentAttentionModel",
    "RecurrentTagger",
    "Seq2Seq",
    "ShowAttendTell",
    "Tagger",
    "Trace",
    "Transformer",
    "TransformerTagger",
    "from_preset",
    "from_public",
    "list_presets",
    "preset_class",
    "preset_config",
]
