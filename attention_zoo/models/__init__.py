"""Models. Each module defines one architecture, followed by its presets."""

from attention_zoo.models.attention_summarizer import AttentionSummarizer
from attention_zoo.models.bert import BERT
from attention_zoo.models.caption_transformer import CaptionTransformer
from attention_zoo.models.captioner import Captioner
from attention_zoo.models.copy_transformer import CopyTransformer
from attention_zoo.models.copying import Copying, Trace
from attention_zoo.models.cross_attention_retriever import CrossAttentionRetriever, EncodedTexts
from attention_zoo.models.deep_att_tagger import DeepAttTagger
from attention_zoo.models.encoder_decoder import EncoderDecoder
from attention_zoo.models.ensemble import Ensemble
from attention_zoo.models.gpt import GPT
from attention_zoo.models.luong import LuongTranslator
from attention_zoo.models.masked_lm import MaskedLM
from attention_zoo.models.pointer_generator import PointerGenerator
from attention_zoo.models.presets import (
    MODELS,
    from_preset,
    list_presets,
    preset_class,
    preset_config,
)
from attention_zoo.models.public import from_public
from attention_zoo.models.recurrent_attention import GlimpsePath, RecurrentAttentionModel
from attention_zoo.models.recurrent_tagger import RecurrentTagger
from attention_zoo.models.rnnsearch import RNNSearch
from attention_zoo.models.seq2seq import Seq2Seq
from attention_zoo.models.show_attend_tell import ShowAttendTell
from attention_zoo.models.tagger import Tagger
from attention_zoo.models.transformer import Transformer
from attention_zoo.models.transformer_tagger import TransformerTagger

__all__ = [
    "BERT",
    "GPT",
    "MODELS",
    "AttentionSummarizer",
    "CaptionTransformer",
    "Captioner",
    "CopyTransformer",
    "Copying",
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
