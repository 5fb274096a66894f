"""Recorded attention weights, plots and HTML pages."""

from attention_zoo.inspection.alignment import plot_alignment, plot_heads
from attention_zoo.inspection.attention_model import attention_model
from attention_zoo.inspection.canvas import pixels
from attention_zoo.inspection.caption_overlay import plot_caption_overlay
from attention_zoo.inspection.caption_page import write_caption_page
from attention_zoo.inspection.classified_bars import plot_classified
from attention_zoo.inspection.classified_page import write_classified_page
from attention_zoo.inspection.confusion_matrix import plot_confusion_matrix
from attention_zoo.inspection.glimpse_path import plot_glimpse_path, write_glimpse_gif
from attention_zoo.inspection.length_curve import plot_length_curve
from attention_zoo.inspection.matched_page import write_matched_page
from attention_zoo.inspection.record import AttentionRecord, AttentionRecords, record
from attention_zoo.inspection.summary_heat import plot_summary_heat
from attention_zoo.inspection.summary_page import write_summary_page
from attention_zoo.inspection.tagged_page import write_tagged_page
from attention_zoo.inspection.word_regions import plot_word_regions

__all__ = [
    "AttentionRecord",
    "AttentionRecords",
    "attention_model",
    "pixels",
    "plot_alignment",
    "plot_caption_overlay",
    "plot_classified",
    "plot_confusion_matrix",
    "plot_glimpse_path",
    "plot_heads",
    "plot_length_curve",
    "plot_summary_heat",
    "plot_word_regions",
    "record",
    "write_caption_page",
    "write_classified_page",
    "write_glimpse_gif",
    "write_matched_page",
    "write_summary_page",
    "write_tagged_page",
]
