"""Training: recipes, `fit`, schedules, checkpoints and evaluation."""

from attention_zoo.training.averaging import average_checkpoints, write_average
from attention_zoo.training.corpora import CORPORA, Corpus
from attention_zoo.training.evaluation import evaluate
from attention_zoo.training.fitting import Result, fit
from attention_zoo.training.image_corpora import Captions
from attention_zoo.training.optimizers import OPTIMIZERS
from attention_zoo.training.recipe import Recipe, override_recipe, read_recipe
from attention_zoo.training.schedules import SCHEDULES, Schedule
from attention_zoo.training.stopping import Stopped
from attention_zoo.training.tagged_corpora import Sentences

__all__ = [
    "CORPORA",
    "OPTIMIZERS",
    "SCHEDULES",
    "Captions",
    "Corpus",
    "Recipe",
    "Result",
    "Schedule",
    "Sentences",
    "Stopped",
    "average_checkpoints",
    "evaluate",
    "fit",
    "override_recipe",
    "read_recipe",
    "write_average",
]
