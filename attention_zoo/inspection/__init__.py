"""Recorded attention weights, plots and HTML pages."""

from attention_zoo.inspection.alignment import plot_alignment, plot_heads
from attention_zoo.inspection.alignment_error import (
    AlignmentScores,
    alignment_error_rate,
    find_word_ids,
    links_from_weights,
)
from attention_zoo.inspection.attention_callback import AttentionCallback
from attention_zoo.inspection.attention_data import AttentionMap, ImageOverlay, TokenAttribution
from attention_zoo.inspection.attention_model import attention_model
from attention_zoo.inspection.attention_page import (
    NotebookPage,
    show_attention,
    write_attention_page,
)
from attention_zoo.inspection.attribution import Attribution, attribute
from attention_zoo.inspection.attribution_bars import plot_attributions
from attention_zoo.inspection.attribution_targets import (
    class_log_probability,
    class_logit,
    tag_emission,
    tag_log_marginal,
    token_log_probability,
)
from attention_zoo.inspection.canvas import pixels
from attention_zoo.inspection.caption_overlay import plot_caption_overlay
from attention_zoo.inspection.caption_page import write_caption_page
from attention_zoo.inspection.classified_bars import plot_classified
from attention_zoo.inspection.classified_page import write_classified_page
from attention_zoo.inspection.confusion_matrix import plot_confusion_matrix
from attention_zoo.inspection.faithfulness import (
    PerturbationCurves,
    kendall_tau,
    perturbation_curves,
    random_scores,
)
from attention_zoo.inspection.generation_attribution import attribute_generation
from attention_zoo.inspection.glimpse_path import plot_glimpse_path, write_glimpse_gif
from attention_zoo.inspection.head_importance import head_importance
from attention_zoo.inspection.head_relations import (
    DependencySentence,
    HeadAgreement,
    RelationAgreement,
    match_heads_with_relations,
    merge_subwords,
    read_dependencies,
)
from attention_zoo.inspection.head_statistics import (
    attention_distance,
    attention_entropy,
    diagonality,
)
from attention_zoo.inspection.head_view import plot_head_view
from attention_zoo.inspection.length_curve import plot_length_curve
from attention_zoo.inspection.matched_page import write_matched_page
from attention_zoo.inspection.record import AttentionRecord, AttentionRecords, record
from attention_zoo.inspection.rollout import attention_flow, attention_rollout
from attention_zoo.inspection.summary_heat import plot_summary_heat
from attention_zoo.inspection.summary_page import write_summary_page
from attention_zoo.inspection.tagged_page import write_tagged_page
from attention_zoo.inspection.translation_page import write_translation_page
from attention_zoo.inspection.word_regions import plot_word_regions

__all__ = [
    "AlignmentScores",
    "AttentionCallback",
    "AttentionMap",
    "AttentionRecord",
    "AttentionRecords",
    "Attribution",
    "DependencySentence",
    "HeadAgreement",
    "ImageOverlay",
    "NotebookPage",
    "PerturbationCurves",
    "RelationAgreement",
    "TokenAttribution",
    "alignment_error_rate",
    "attention_distance",
    "attention_entropy",
    "attention_flow",
    "attention_model",
    "attention_rollout",
    "attribute",
    "attribute_generation",
    "class_log_probability",
    "class_logit",
    "diagonality",
    "find_word_ids",
    "head_importance",
    "kendall_tau",
    "links_from_weights",
    "match_heads_with_relations",
    "merge_subwords",
    "perturbation_curves",
    "pixels",
    "plot_alignment",
    "plot_attributions",
    "plot_caption_overlay",
    "plot_classified",
    "plot_confusion_matrix",
    "plot_glimpse_path",
    "plot_head_view",
    "plot_heads",
    "plot_length_curve",
    "plot_summary_heat",
    "plot_word_regions",
    "random_scores",
    "read_dependencies",
    "record",
    "show_attention",
    "tag_emission",
    "tag_log_marginal",
    "token_log_probability",
    "write_attention_page",
    "write_caption_page",
    "write_classified_page",
    "write_glimpse_gif",
    "write_matched_page",
    "write_summary_page",
    "write_tagged_page",
    "write_translation_page",
]
