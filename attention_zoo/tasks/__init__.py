"""Tasks: models with preprocessing, from raw inputs to results with scores and attention."""

from attention_zoo.decoding import SearchOptions
from attention_zoo.tasks.attention_maps import make_attention_maps
from attention_zoo.tasks.attention_report import write_attention_report
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.captioning import Caption, Captioning
from attention_zoo.tasks.classification import Classification, ClassificationResult
from attention_zoo.tasks.corpora import Corpus, FileCorpus, GeneratedCorpus
from attention_zoo.tasks.glimpses import GlimpseResult, Glimpses
from attention_zoo.tasks.inputs import Input
from attention_zoo.tasks.language_modeling import Continuation, LanguageModeling
from attention_zoo.tasks.loading import find_task_folder, load
from attention_zoo.tasks.masked_language_modeling import (
    FillMaskResult,
    MaskedLanguageModeling,
    TokenPrediction,
)
from attention_zoo.tasks.matching import Matching, MatchingResult
from attention_zoo.tasks.model_call import ModelCall
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import Result
from attention_zoo.tasks.retrieval import ImageIndex, Retrieval, RetrievalResult
from attention_zoo.tasks.summarization import Summarization, Summary
from attention_zoo.tasks.tagging import TaggedSpan, Tagging, TaggingResult
from attention_zoo.tasks.translation import Translation, TranslationResult

__all__ = [
    "TASKS",
    "Caption",
    "Captioning",
    "Classification",
    "ClassificationResult",
    "Continuation",
    "Corpus",
    "FileCorpus",
    "FillMaskResult",
    "GeneratedCorpus",
    "GlimpseResult",
    "Glimpses",
    "ImageIndex",
    "Input",
    "LanguageModeling",
    "MaskedLanguageModeling",
    "Matching",
    "MatchingResult",
    "ModelCall",
    "Result",
    "Retrieval",
    "RetrievalResult",
    "SearchOptions",
    "Summarization",
    "Summary",
    "TaggedSpan",
    "Tagging",
    "TaggingResult",
    "Task",
    "TokenPrediction",
    "Translation",
    "TranslationResult",
    "find_task_folder",
    "load",
    "make_attention_maps",
    "write_attention_report",
]
