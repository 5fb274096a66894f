"""Pictures of what a model did: where it looked, and how it fares with length."""

from attention_zoo.inspection.alignment import plot_alignment, plot_heads
from attention_zoo.inspection.canvas import pixels
from attention_zoo.inspection.length_curve import plot_length_curve
from attention_zoo.inspection.tagged_page import write_tagged_page

__all__ = ["pixels", "plot_alignment", "plot_heads", "plot_length_curve", "write_tagged_page"]
