"""Figures of predictions with their attention weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def check_picture(path: Path) -> None:
    """Raise ValueError if no figure can be written to this path."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = {*FigureCanvasBase.get_supported_filetypes(), "gif"}
    if path.suffix and path.suffix[1:].lower() not in known:
        raise ValueError(
            f"{path}: unknown image format {path.suffix}; use .png, .svg or .pdf, or .gif for"
            " glimpses"
        )
    if not path.parent.is_dir():
        raise ValueError(f"{path}: folder {path.parent} does not exist; create it first")


def draw_answer(answer: Any, path: str | Path | None = None) -> Any:
    """Return the figure of a prediction with tokens and attention; write it to `path` if given.

    A summary is drawn as its shaded source text, glimpses as their path, a caption as one image per
    word, retrieved images as one image per query word, other predictions as a matrix.
    """
    from attention_zoo import inspection, tasks

    if isinstance(answer, tasks.Summary):
        return inspection.plot_summary_heat(answer, path)
    if isinstance(answer, tasks.Glimpsed):
        return _draw_glimpses(answer, path)
    if isinstance(answer, tasks.Caption):
        parts = answer.image, answer.attention, answer.tokens
        return inspection.plot_caption_overlay(*parts, path, title=answer.text)
    if isinstance(answer, tasks.RetrievalResult):
        return inspection.plot_word_regions(answer, path)
    weights = answer.attention
    if weights.ndim == 4:  # self-attention: average over layers and heads
        weights = weights.mean(axis=(0, 1))
    return inspection.plot_alignment(weights, answer.tokens, answer.source_tokens, path)


def _draw_glimpses(answer: Any, path: str | Path | None) -> Any:
    """Draw the path of glimpses; a `.gif` file is animated."""
    from attention_zoo import inspection

    _, scales, size, *_ = answer.seen.shape
    of = answer.image, answer.locations, size, scales
    labels = {"answers": answer.tokens, "title": answer.text}
    if path is not None and Path(path).suffix == ".gif":
        inspection.write_glimpse_gif(*of, path=path, **labels)
        return inspection.plot_glimpse_path(*of, **labels)
    return inspection.plot_glimpse_path(*of, path, **labels)
