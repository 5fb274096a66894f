"""Tasks: models with preprocessing, from raw inputs to results with scores and attention."""

from attention_zoo.decoding import SearchOptions
from attention_zoo.tasks.caption import Caption
from attention_zoo.tasks.captioning import Captioning
from attention_zoo.tasks.found import ImageIndex, RetrievalResult
from attention_zoo.tasks.glimpses import Glimpsed, Glimpses
from attention_zoo.tasks.language_modeling import Continuation, LanguageModeling
from attention_zoo.tasks.loading import find_task_folder, load
from attention_zoo.tasks.masked_language_modeling import (
    Filled,
    Filling,
    MaskedLanguageModeling,
)
from attention_zoo.tasks.retrieval import Retrieval
from attention_zoo.tasks.summarization import Summarization
from attention_zoo.tasks.summary import Summary
from attention_zoo.tasks.tagged import Tagged, TaggedSpan
from attention_zoo.tasks.tagging import Tagging
from attention_zoo.tasks.task import TASKS, Task
from attention_zoo.tasks.translation import Answer, Translation

__all__ = [
    "TASKS",
    "Answer",
    "Caption",
    "Captioning",
    "Continuation",
    "Filled",
    "Filling",
    "Glimpsed",
    "Glimpses",
    "ImageIndex",
    "LanguageModeling",
    "MaskedLanguageModeling",
    "Retrieval",
    "RetrievalResult",
    "SearchOptions",
    "Summarization",
    "Summary",
    "Tagged",
    "TaggedSpan",
    "Tagging",
    "Task",
    "Translation",
    "find_task_folder",
    "load",
]
