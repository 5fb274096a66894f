"""Pictures of what a model did: where it looked, what it copied, and how it fares with length."""

from attention_zoo.inspection.alignment import plot_alignment, plot_heads
from attention_zoo.inspection.canvas import pixels
from attention_zoo.inspection.length_curve import plot_length_curve
from attention_zoo.inspection.summary_heat import plot_summary_heat
from attention_zoo.inspection.summary_page import write_summary_page
from attention_zoo.inspection.tagged_page import write_tagged_page

__all__ = [
    "pixels",
    "plot_alignment",
    "plot_heads",
    "plot_length_curve",
    "plot_summary_heat",
    "write_summary_page",
    "write_tagged_page",
]
