"""Training: recipes, `fit`, schedules, checkpoints and evaluation."""

from attention_zoo.training.averaging import average_checkpoints, write_average
from attention_zoo.training.evaluation import evaluate
from attention_zoo.training.fitting import RunResult, fit
from attention_zoo.training.optimizers import OPTIMIZERS
from attention_zoo.training.preparation import prepare_data
from attention_zoo.training.recipe import Recipe, override_recipe, override_task, read_recipe
from attention_zoo.training.schedules import SCHEDULES, Schedule
from attention_zoo.training.stopping import Stopped

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "Recipe",
    "RunResult",
    "Schedule",
    "Stopped",
    "average_checkpoints",
    "evaluate",
    "fit",
    "override_recipe",
    "override_task",
    "prepare_data",
    "read_recipe",
    "write_average",
]
