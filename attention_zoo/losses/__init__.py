"""Losses."""

from attention_zoo.losses.binary_cross_entropy import BinaryCrossEntropy
from attention_zoo.losses.class_cross_entropy import ClassCrossEntropy
from attention_zoo.losses.copy_cross_entropy import CopyCrossEntropy
from attention_zoo.losses.crf_loss import CRFLoss
from attention_zoo.losses.glimpse_loss import GlimpseLoss
from attention_zoo.losses.guided_alignment import GuidedAlignment
from attention_zoo.losses.hardest_negatives import HardestNegatives
from attention_zoo.losses.mean_squared_error import MeanSquaredError
from attention_zoo.losses.reinforce import Reinforce
from attention_zoo.losses.sequence_cross_entropy import SequenceCrossEntropy
from attention_zoo.losses.tag_cross_entropy import TagCrossEntropy
from attention_zoo.ops import PENALTIES, mean_penalty

__all__ = [
    "PENALTIES",
    "BinaryCrossEntropy",
    "CRFLoss",
    "ClassCrossEntropy",
    "CopyCrossEntropy",
    "GlimpseLoss",
    "GuidedAlignment",
    "HardestNegatives",
    "MeanSquaredError",
    "Reinforce",
    "SequenceCrossEntropy",
    "TagCrossEntropy",
    "mean_penalty",
]
